package spec

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
)

// Schema is a JSON Schema (2020-12) of the cluster file, for editors and other programs. It says all that a schema can; Parse
// also refuses what is not available yet, which here is only described.
func Schema() []byte {
	return clusterFile.Schema("Muster cluster file")
}

// Schema is a JSON Schema (2020-12) of a form.
func (f *Form) Schema(title string) []byte {
	schema := f.root.schema(f.rules)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = title
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(schema); err != nil {
		panic("spec: a schema that JSON cannot hold: " + err.Error())
	}
	return b.Bytes()
}

func (n *node) schema(rules []rule) map[string]any {
	s := map[string]any{"type": n.json}
	switch n.json {
	case "object":
		n.schemaOfMapping(s, rules)
	case "array":
		n.schemaOfList(s, rules)
	case "integer":
		s["minimum"], s["maximum"] = n.Min, n.Max
	case "string":
		n.schemaOfText(s)
	}
	if n.OrOne {
		s = map[string]any{"anyOf": []any{n.item.schema(rules), s}}
	}
	if text := n.describe(); text != "" {
		s["description"] = text
	}
	for _, rule := range rules {
		if rule.schema != nil && rule.at == n.Path {
			maps.Copy(s, rule.schema)
		}
	}
	return s
}

func (n *node) schemaOfMapping(s map[string]any, rules []rule) {
	if n.item != nil {
		s["additionalProperties"] = n.item.schema(rules)
		s["propertyNames"] = map[string]any{"pattern": n.item.keys.form.String()}
		return
	}
	properties, required := map[string]any{}, []string{}
	for _, f := range n.fields {
		properties[f.key] = f.schema(rules)
		if f.Required {
			required = append(required, f.key)
		}
	}
	s["properties"], s["additionalProperties"] = properties, false
	if len(required) > 0 {
		s["required"] = required
	}
}

func (n *node) schemaOfList(s map[string]any, rules []rule) {
	s["items"], s["minItems"], s["maxItems"] = n.item.schema(rules), n.Min, n.Max
	if !n.keyed() {
		s["uniqueItems"] = true
	}
}

func (n *node) schemaOfText(s map[string]any) {
	switch {
	case n.form != nil:
		s["pattern"] = n.form.String()
	case len(n.Values) == 0:
		s["minLength"] = 1
	}
	switch {
	case n.digits && n.form == nil:
		s["type"] = []string{"string", "number"}
	case n.digits: // a pattern says nothing of numbers
		s["type"], s["minimum"] = []string{"string", "integer"}, 1
	}
	if len(n.Values) > 0 {
		s["enum"] = n.Values
	}
	if len(n.reserved) > 0 {
		s["not"] = map[string]any{"enum": n.reserved}
	}
}

// describe is the field in words: what it is, its default, and what of it has to wait.
func (n *node) describe() string {
	var parts []string
	if n.Doc != "" {
		parts = append(parts, n.Doc)
	}
	if n.Default != "" {
		parts = append(parts, "Default: "+n.Default+".")
	}
	if n.NotYet != "" {
		parts = append(parts, "Not available yet: "+n.NotYet+".")
	}
	if n.hint != "" && n.form != nil {
		parts = append(parts, "Write "+n.advice()+".")
	}
	return strings.Join(parts, " ")
}
