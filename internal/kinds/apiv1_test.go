package kinds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"muster/internal/kinds"
)

// TestTheAPIPublishesThePhasesOfTheKinds: apiv1 is a leaf and cannot ask them, so it repeats their words.
func TestTheAPIPublishesThePhasesOfTheKinds(t *testing.T) {
	tree, err := parser.ParseFile(token.NewFileSet(), "../apiv1/phases.go", nil, parser.SkipObjectResolution)
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
		t.Errorf("apiv1/phases.go has\n%q, the kinds have\n%q", published, defined)
	}
}
