package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"muster/internal/kit/pattern"
)

// reader walks a syntax tree along the grammar. It keeps what is right, notes where everything stands, and collects what is
// wrong.
type reader struct {
	text
	places map[string]position
	found  Diagnostics
}

// written says whether something stands at a path, right or wrong.
func (r *reader) written(path string) bool {
	_, ok := r.places[path]
	return ok
}

// refused says whether something is wrong with a path itself.
func (r *reader) refused(path string) bool {
	return slices.ContainsFunc(r.found, func(d Diagnostic) bool { return d.Path == path })
}

func (r *reader) report(code, path string, at position, text, hint string) {
	r.found.add(Diagnostic{Code: code, Path: path, Line: at.line, Col: at.col, Text: text, Hint: hint})
}

// value reads one value. What is wrong is reported and left out; the result then still has the shape that its field needs.
func (r *reader) value(n *node, path string, v ast.Node) any {
	switch got := shapeOf(v); {
	case got == "null":
		r.report(CodeEmptyValue, path, r.places[path], "has no value", n.absence("write one, or remove the field"))
	case n.OrOne && got != n.json:
		r.places[path+"[0]"] = r.places[path]
		if only := r.value(n.item, path, v); only != nil {
			return []any{only}
		}
		return nil
	case n.digits && (got == "integer" || got == "number" && n.form == nil):
		return r.scalar(n, path, v)
	case got != n.json:
		r.report(CodeWrongType, path, r.start(v), "must be "+n.is+", not "+describe(v), r.conversion(n, v))
	case got == "object":
		return r.mapping(n, path, v.(ast.MapNode))
	case got == "array":
		return r.list(n, path, v.(*ast.SequenceNode))
	default:
		return r.scalar(n, path, v)
	}
	if n.json == "object" {
		return map[string]any{}
	}
	return nil
}

// conversion is the hint for a value of the wrong type: how to write the same value right, if that is possible.
func (r *reader) conversion(n *node, v ast.Node) string {
	word := v.GetToken().Value
	switch got := shapeOf(v); {
	case n.json == "string" && (got == "integer" || got == "number" || got == "boolean") && n.accepts(word):
		return fmt.Sprintf("write it in quotes: %q", word)
	case n.json == "integer" && got == "string" && decimal.MatchString(word), n.json == "boolean" &&
		(word == "true" || word == "false"):
		return "write it without quotes: " + word
	case n.json == "string" && len(n.Values) > 0:
		return "write " + either(n.Values)
	}
	return n.advice()
}

// absence is the hint for a field without a value: what to write, if something must be written.
func (n *node) absence(optional string) string {
	if n.Required && n.example != "" {
		return "write " + n.key + ": " + n.example
	}
	return optional
}

func (r *reader) mapping(n *node, path string, m ast.MapNode) any {
	values := map[string]any{}
	first := map[string]position{}
	for i := m.MapRange(); i.Next() && !r.found.full(); {
		key := keyText(i.Key())
		at := r.at(i.Key().GetToken())
		below := join(path, key)
		if before, twice := first[key]; twice {
			r.report(CodeDuplicateKey, below, at, "is written twice", fmt.Sprintf("first on line %d; keep one", before.line))
			continue
		}
		first[key] = at
		field := n.field(key)
		if n.item != nil {
			field = r.freeKey(n, below, key, at)
		}
		if field == nil {
			r.unknown(n, path, key, at)
			continue
		}
		r.places[below] = at
		if s := shapeOf(i.Value()); s != "object" && s != "array" && s != "null" {
			r.places[below] = r.start(i.Value())
		}
		if !field.Available() {
			r.report(CodeNotAvailable, below, at, "not available yet: "+field.NotYet, "leave it out")
		}
		if v := r.value(field, below, i.Value()); v != nil {
			values[key] = v
		}
	}
	for _, f := range n.fields {
		if below := join(path, f.key); f.Required && !r.written(below) {
			r.report(CodeMissingField, below, r.places[path], "is missing", f.absence(""))
		}
	}
	return values
}

// freeKey is the field for any key of a mapping with free keys, nil for a key that is no name.
func (r *reader) freeKey(n *node, path, key string, at position) *node {
	if keys := n.item.keys; !keys.accepts(key) {
		r.report(CodeBadValue, path, at, "must be "+keys.is, keys.advice())
	}
	return n.item
}

// unknown reports a key that no field has, with the field that was probably meant.
// That one counts as written, lest it be called missing too.
func (r *reader) unknown(n *node, parent, key string, at position) {
	known := make([]string, len(n.fields))
	for i, f := range n.fields {
		known[i] = f.key
	}
	hint := "known here: " + strings.Join(known, ", ")
	if word := closest(key, known); word != "" {
		hint = fmt.Sprintf("did you mean %s?", word)
		if meant := join(parent, word); !r.written(meant) {
			r.places[meant] = at
		}
	} else if homes := r.form.homesOf(key); len(homes) > 0 {
		hint = fmt.Sprintf("%s is written in %s", key, either(homes))
	}
	r.report(CodeUnknownField, join(parent, key), at, "unknown field", hint)
}

// homesOf lists the mappings that have a field of this name.
func (f *Form) homesOf(key string) (homes []string) {
	for _, row := range f.table {
		if parent, last := splitPattern(row.Path); last == key {
			if parent == "" {
				parent = "the file itself, beside " + f.table[0].Path
			}
			homes = append(homes, parent)
		}
	}
	return homes
}

func (r *reader) list(n *node, path string, s *ast.SequenceNode) any {
	if got := len(s.Values); got < n.Min || got > n.Max {
		r.report(CodeBadValue, path, r.places[path], fmt.Sprintf("must have %d to %d entries, not %d", n.Min, n.Max, got), "")
		if got > n.Max {
			return []any{}
		}
	}
	values := []any{}
	for i, v := range s.Values {
		below := fmt.Sprintf("%s[%d]", path, i)
		r.places[below] = r.start(v)
		read := r.value(n.item, below, v)
		if _, structure := read.(map[string]any); !structure && read != nil && slices.Contains(values, read) {
			r.report(CodeDuplicateValue, below, r.places[below], fmt.Sprintf("%v is written twice", read), "keep one")
		}
		if read != nil {
			values = append(values, read)
		}
	}
	return values
}

func (r *reader) scalar(n *node, path string, v ast.Node) any {
	word := scalarText(v)
	at := r.start(v)
	switch {
	case n.json == "boolean":
		return word == "true"
	case n.json == "integer":
		return r.number(n, path, at, word)
	case len(n.Values) > 0 && !slices.Contains(n.Values, word):
		hint := "write " + either(n.now())
		if near := closest(word, n.Values); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		r.report(CodeBadValue, path, at, fmt.Sprintf("must be %s, not %s", either(n.Values), describe(v)), hint)
		return nil
	case slices.Contains(n.reserved, word):
		r.report(CodeBadValue, path, at, fmt.Sprintf("%q is reserved", word), "choose a name other than "+either(n.reserved))
		return nil
	case !n.accepts(word):
		r.report(CodeBadValue, path, at, fmt.Sprintf("must be %s, not %s", n.is, describe(v)), n.advice())
		return nil
	case !n.available(word):
		r.report(CodeNotAvailable, path, at, "not available yet: "+n.NotYet, "write "+either(n.Now))
	}
	return word
}

func (f Field) now() []string {
	if len(f.Now) > 0 {
		return f.Now
	}
	return f.Values
}

// decimal is how a whole number is written. YAML knows more ways; one is 010, which means 8 to some readers and 10 to others.
var decimal = pattern.New(`^-?(0|[1-9][0-9]*)$`)

func (r *reader) number(n *node, path string, at position, word string) any {
	if !decimal.MatchString(word) {
		r.report(CodeBadValue, path, at, "must be "+n.is+", not "+clip(word), n.advice())
		return nil
	}
	i, err := strconv.Atoi(word)
	if err != nil || i < n.Min || i > n.Max {
		r.report(CodeBadValue, path, at, fmt.Sprintf("must be between %d and %d, not %s", n.Min, n.Max, clip(word)), "")
		return nil
	}
	return i
}

// shapes are the JSON types of YAML's nodes. What is not here cannot reach the reader, or is no value.
var shapes = map[ast.NodeType]string{
	ast.NullType: "null", ast.BoolType: "boolean", ast.IntegerType: "integer", ast.FloatType: "number",
	ast.InfinityType: "number",
	ast.NanType:      "number", ast.StringType: "string", ast.MappingType: "object", ast.MappingValueType: "object",
	ast.SequenceType: "array", ast.LiteralType: "string",
}

func shapeOf(v ast.Node) string {
	if v == nil {
		return "null"
	}
	if tk := v.GetToken(); tk != nil && tk.Type == token.StringType && decimal.MatchString(tk.Value) {
		return "integer" // one so large that the library takes it for text
	}
	return shapes[v.Type()]
}

// describe says what a user wrote, for "must be …, not …".
func describe(v ast.Node) string {
	switch shapeOf(v) {
	case "null":
		return "nothing"
	case "object":
		return "a mapping"
	case "array":
		return "a list"
	case "string":
		return "text " + strconv.Quote(clip(scalarText(v)))
	default:
		return clip(scalarText(v))
	}
}

func scalarText(v ast.Node) string {
	switch v := v.(type) {
	case *ast.StringNode:
		return v.Value
	case *ast.LiteralNode: // a block of text
		return v.Value.Value
	}
	return v.GetToken().Value
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.GetToken().Value
}

// clip keeps a message to one short line whatever was written.
func clip(s string) string {
	const most = 40
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

var plainKey = pattern.New(`^[A-Za-z0-9_-]{1,64}$`)

// join puts a key below a path; a key that could be mistaken for a path is quoted.
func join(path, key string) string {
	if !plainKey.MatchString(key) {
		key = strconv.Quote(clip(key))
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// decode turns what the reader kept into a Cluster, whose JSON names are the grammar's.
func decode(values any) (c Cluster) {
	text, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic("spec: the types do not follow the table of fields: " + err.Error()) // held by a test
	}
	return c
}
