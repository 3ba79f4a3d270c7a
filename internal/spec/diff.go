package spec

import "slices"

// EffectOf is what changing the field of a path pattern does, and why.
func EffectOf(path string) (Effect, string) {
	for _, f := range table {
		if f.Path == path {
			return f.effect(false)
		}
	}
	return "", ""
}

// Diff lists what changes between two resolved clusters, in the order of a canonical file. The order of queues means nothing, so
// that to reorder them is no change; a queue under a new name is another queue.
func Diff(old, new Cluster) []Change {
	var changes []Change
	grammar.diff(&changes, "", plain(old), plain(new))
	return changes
}

func (n *node) diff(out *[]Change, path string, old, new any) {
	switch {
	case n.keyed():
		n.diffEntries(out, path, asList(old), asList(new))
	case len(n.fields) > 0:
		before, after := asMapping(old), asMapping(new)
		for _, f := range n.fields {
			f.diff(out, join(path, f.key), before[f.key], after[f.key])
		}
	default:
		n.change(out, path, n.inline(old), n.inline(new))
	}
}

func (n *node) diffEntries(out *[]Change, path string, old, new []any) {
	key := n.identity()
	named := func(list []any, entry any) any {
		i := slices.IndexFunc(list, func(e any) bool { return asMapping(e)[key] == asMapping(entry)[key] })
		if i < 0 {
			return nil
		}
		return list[i]
	}
	where := func(entry any) string { return path + "[" + n.item.field(key).inline(asMapping(entry)[key]) + "]" }
	for _, entry := range new {
		if before := named(old, entry); before != nil {
			n.item.diff(out, where(entry), before, entry)
		} else {
			n.item.change(out, where(entry), "", n.item.inline(entry))
		}
	}
	for _, entry := range old {
		if named(new, entry) == nil {
			n.item.change(out, where(entry), n.item.inline(entry), "")
		}
	}
}

// change notes a difference, with its effect by whether the value falls or rises.
func (n *node) change(out *[]Change, path, old, new string) {
	if old == new {
		return
	}
	effect, why := n.effect(new == "" || n.lower(old, new))
	*out = append(*out, Change{Path: path, Old: old, New: new, Effect: effect, Why: why})
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

func asMapping(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
