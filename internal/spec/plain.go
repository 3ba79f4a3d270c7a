package spec

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"

	"muster/internal/kit/pattern"
)

// plain is a Cluster as maps, lists and scalars, what is not written left out: the form in which the grammar can walk it.
func plain(c Cluster) map[string]any {
	text, err := json.Marshal(c)
	if err != nil {
		panic("spec: a cluster that JSON cannot hold: " + err.Error()) // no type of ours can do that
	}
	var values map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		panic("spec: JSON that does not read back: " + err.Error())
	}
	return values
}

// each calls visit for the fields of a mapping that are written, in canonical order.
func (n *node) each(values map[string]any, visit func(*node, string, any)) {
	if n.item != nil {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			visit(n.item, key, values[key])
		}
		return
	}
	for _, f := range n.fields {
		if v, written := values[f.key]; written {
			visit(f, f.key, v)
		}
	}
}

// inline is a value on one line, as in [a, b] or {cpus: 16}; nothing at all is "".
func (n *node) inline(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = n.item.inline(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		n.each(v, func(f *node, key string, v any) { items = append(items, scalar(key)+": "+f.inline(v)) })
		return "{" + strings.Join(items, ", ") + "}"
	case string:
		if n.digits && decimal.MatchString(v) {
			return v
		}
	}
	return scalar(v)
}

// bare is text that needs no quotes anywhere in YAML; what begins with a digit only if no reader can take it for a number or
// time.
var bare = pattern.New(`^([A-Za-z/]|[A-Za-z/][A-Za-z0-9 /._+-]*[A-Za-z0-9/._+-]|[0-9]+ ?[A-Za-z]+)$`)

func scalar(v any) string {
	switch v := v.(type) {
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	s := v.(string)
	if bare.MatchString(s) && !token.IsNeedQuoted(s) {
		return s
	}
	return quoted(s)
}

// quoted is a text in double quotes, whose escapes are the same in JSON and YAML.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
