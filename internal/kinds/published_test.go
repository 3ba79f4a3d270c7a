package kinds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/internal/kinds"
	"muster/internal/kinds/machine"
)

// TestTheAPIPublishesThePhasesOfTheKinds: apiv1 is a leaf and cannot ask them, so its constants, which programs in Go compare
// with, repeat their words. The API's document needs no such test: its enums are filled in from the kinds.
func TestTheAPIPublishesThePhasesOfTheKinds(t *testing.T) {
	tree, err := parser.ParseFile(token.NewFileSet(), "../../api/v1/phases.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var published, defined []string
	ast.Inspect(tree, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := v.Type.(*ast.Ident); ok && of.Name == "Phase" {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			published = append(published, text)
		}
		return true
	})
	for _, d := range kinds.All() {
		if !d.Lives() {
			continue
		}
		for _, p := range append(d.Phases, d.End) {
			defined = append(defined, string(p))
		}
	}
	slices.Sort(published)
	slices.Sort(defined)
	if defined = slices.Compact(defined); !slices.Equal(published, defined) {
		t.Errorf("api/v1/phases.go has\n%q, the kinds have\n%q", published, defined)
	}
}

// TestThePagesNameWhatLives: the page of machines explains each of their phases, and the page of metrics names all kinds.
func TestThePagesNameWhatLives(t *testing.T) {
	page := func(name string) string {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	machines := page("machines.md")
	for _, phase := range kinds.Phases(machine.Kind) {
		if !strings.Contains(machines, "`"+string(phase)+"`") {
			t.Errorf("docs/machines.md does not explain %s", phase)
		}
	}
	_, row, _ := strings.Cut(page("observe.md"), "| `muster_entities` |")
	row, _, _ = strings.Cut(row, "\n")
	for _, d := range kinds.All() {
		if d.Lives() && !strings.Contains(strings.ToLower(row), string(d.Kind)+"s") {
			t.Errorf("docs/observe.md does not say that %ss are counted: %s", d.Kind, row)
		}
	}
}
