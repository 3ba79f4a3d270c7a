package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/internal/drivers"
)

// driverNames are the names of power controls, switches and fabrics, from the list.
func driverNames() []string {
	names := slices.Concat(drivers.Switches().Names(), drivers.Fabrics().Names())
	for _, f := range drivers.Power() {
		names = append(names, f.Scheme)
	}
	return names
}

// TestOnlyTheListKnowsDriversByName: whoever else writes a driver's name decides something that its declaration should.
func TestOnlyTheListKnowsDriversByName(t *testing.T) {
	// Names that are words of the trade too: nothing can be told from them alone.
	words := []string{"none", "bridge", "command"}
	// What publishes values of the API: the virtual rack, which answers for BMCs; the first lines of secrets' files.
	published := []string{"internal/rack/rack.go", "internal/kit/private/private.go"}
	names, found := driverNames(), map[string]bool{}
	for _, file := range tracked(t, "cmd/*.go", "internal/*.go") {
		if strings.HasSuffix(file, "_test.go") || slices.Contains(published, file) {
			continue
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if _, is := n.(*ast.ImportSpec); is {
				return false
			}
			literal, is := n.(*ast.BasicLit)
			if !is || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				whole := text == name && !slices.Contains(words, name)
				if !whole && !strings.HasPrefix(text, name+":/") && !(text == name+":" && !slices.Contains(words[:2], name)) {
					continue
				}
				if strings.HasPrefix(file, "internal/drivers/") {
					found[name] = true
				} else {
					t.Errorf("%s: %q: ask the driver's declaration", set.Position(n.Pos()), text)
				}
			}
			return true
		})
	}
	for _, name := range names {
		if !found[name] && !slices.Contains(words, name) {
			t.Errorf("no driver is called %q in its own folder: this test looks at nothing", name)
		}
	}
}
