package library

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"muster/internal/bench/recipe"
	"muster/internal/spec"
)

// fits holds a file to the schema of a form.
func fits(t *testing.T, form *spec.Form, src string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(form.Schema("a test")))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("form.json", doc); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("form.json").Validate(doc)
}

func TestAllRecipesAndSuitesFitTheirSchemas(t *testing.T) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil || len(names) < 30 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		src, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		form := recipe.Form()
		if recipe.IsSuite(src) {
			form = recipe.SuiteForm()
		}
		if err := fits(t, form, string(src)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestASchemaRefusesWhatHasAnotherShape: what a file is refused for by a field alone, its schema refuses, too.
func TestASchemaRefusesWhatHasAnotherShape(t *testing.T) {
	const some = `recipe: some
about: A test
needs: {programs: [srun], nodes: 2}
parameters: {size: [1, 2]}
seconds: size
run: echo
read:
  - {quantity: q, lines: '(?P<value>.)', unit: s, better: lower}
`
	const both = `suite: both
about: A test
rounds: 6
sizes: [1, 2]
recipes:
  - {recipe: some, parameters: {size: 3}}
`
	shapes := []string{spec.CodeUnknownField, spec.CodeWrongType, spec.CodeMissingField, spec.CodeEmptyValue, spec.CodeBadValue,
		spec.CodeDuplicateValue}
	for text, changes := range map[string][][2]string{
		some: {{"", ""}, {"seconds", "secunds"}, {"seconds: size\n", ""}, {"size\nrun", "true\nrun"}, {"echo", "[echo]"},
			{"echo", "3"}, {"A test", "''"}, {"A test", ""}, {"[srun]", "srun"}, {"[srun]", "[]"}, {"[srun]", "[srun, srun]"},
			{"nodes: 2", "nodes: two"}, {"nodes: 2", "nodes: 0"}, {"nodes: 2", "cpus: 2"}, {"size:", "a-size:"},
			{"[1, 2]", "{a: 1}"}, {"[1, 2]", "[[1]]"}, {"recipe: some", "recipe: Some"}, {"lower", "less"}, {"unit: s, ", ""},
			{"better", "best"}},
		both: {{"", ""}, {"rounds: 6", "rounds: 600"}, {"rounds: 6", "rounds: '6'"}, {"rounds", "round"}, {"[1, 2]", "[1, 1]"},
			{"recipe: some, ", ""}, {"recipe: some", "suite: some"}, {"size: 3", "size: true"}, {"size: 3", "size: {}"},
			{"recipes:", "valid:"}},
	} {
		form := recipe.Form()
		if recipe.IsSuite([]byte(text)) {
			form = recipe.SuiteForm()
		}
		for _, change := range changes {
			src := strings.Replace(text, change[0], change[1], 1)
			found, _ := form.Read("a.yaml", []byte(src), new(any), nil).(spec.Diagnostics)
			refused := slices.ContainsFunc(found, func(d spec.Diagnostic) bool { return slices.Contains(shapes, d.Code) })
			if got := fits(t, form, src); (got != nil) != refused || refused != (change[0] != "") {
				t.Errorf("%s in the place of %s: refused for %v, by the schema for %v", change[1], change[0], found, got)
			}
		}
	}
}
