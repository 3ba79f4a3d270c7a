package spec

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("cluster.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate holds a file to the schema; ok is false for a text that is no YAML for the library either.
func validate(s *jsonschema.Schema, src []byte) (violation error, ok bool) {
	text, err := yaml.YAMLToJSON(bytes.TrimPrefix(src, []byte("\ufeff")))
	if err != nil {
		return nil, false
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, false
	}
	return s.Validate(doc), true
}

func TestGoodFilesFitTheSchema(t *testing.T) {
	s := compiled(t)
	for path, src := range corpus(t, "good") {
		if violation, ok := validate(s, src); !ok || violation != nil {
			t.Errorf("%s: %v", path, violation)
		}
		expanded := Render(mustResolve(t, mustParse(t, path, src).Cluster))
		if violation, ok := validate(s, expanded); !ok || violation != nil {
			t.Errorf("%s, expanded: %v", path, violation)
		}
	}
}

func TestTheSchemaRefusesWhatItCanExpress(t *testing.T) {
	expressible := []string{CodeUnknownField, CodeWrongType, CodeMissingField, CodeEmptyValue, CodeBadValue, CodeConflict}
	beyond := map[string]string{
		"queue-min-above-max.yaml":      "compares two fields",
		"plain-elastic.yaml":            "compares two fields",
		"storage-parent-directory.yaml": "needs more than a pattern",
		"storage-too-small.yaml":        "compares an amount with its unit",
		"nodes-octal.yaml":              "is a number once YAML has read it",
	}
	s, checked := compiled(t), 0
	for path, src := range corpus(t, "bad") {
		ds, name := diagnose(t, filepath.Base(path), src), filepath.Base(path)
		wrong := slices.ContainsFunc(ds, func(d Diagnostic) bool { return slices.Contains(expressible, d.Code) })
		if !wrong || beyond[name] != "" {
			continue
		}
		violation, ok := validate(s, src)
		if !ok {
			continue
		}
		checked++
		if violation == nil {
			t.Errorf("%s: fits the schema, though\n%v", name, ds)
		}
	}
	if checked < 40 {
		t.Errorf("only %d files were checked", checked)
	}
}

func TestTheSchemaIsTheSameEachTime(t *testing.T) {
	if !bytes.Equal(Schema(), Schema()) {
		t.Error("it is not")
	}
}
