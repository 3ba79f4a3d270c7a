package spec

import "strings"

// Render writes a cluster file in canonical form: fields in the order of the table, two spaces of indent, nothing that is not
// written in the Cluster. Parse reads it back to the same Cluster, if it is one that Parse accepts.
func Render(c Cluster) []byte {
	var b strings.Builder
	grammar.render(&b, "", plain(c))
	return []byte(b.String())
}

func (n *node) render(b *strings.Builder, indent string, values map[string]any) {
	n.each(values, func(f *node, key string, v any) {
		switch list, isList := v.([]any); {
		case f.OrOne && len(list) == 1:
			b.WriteString(indent + key + ": " + scalar(list[0]) + "\n")
		case isList && f.keyed():
			b.WriteString(indent + key + ":\n")
			for _, item := range list {
				var entry strings.Builder
				f.item.render(&entry, indent+"    ", item.(map[string]any))
				b.WriteString(indent + "  - " + strings.TrimPrefix(entry.String(), indent+"    "))
			}
		case f.json == "object" && f.inline(v) != "{}":
			b.WriteString(indent + key + ":\n")
			f.render(b, indent+"  ", v.(map[string]any))
		default:
			b.WriteString(indent + key + ": " + f.inline(v) + "\n")
		}
	})
}
