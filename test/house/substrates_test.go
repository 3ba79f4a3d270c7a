package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/internal/drivers"
)

// homonyms are words that are a driver's name and mean something else, and values that people write in files: where, and what.
var homonyms = map[string][]string{
	"internal/spec/types.go":           {"local", "metal", "vm"}, // values of isolation, which are published
	"internal/kinds/person/token.go":   {"local"},                // the token of the controller's own host
	"internal/kinds/kindstest/rows.go": {"local"},                // machines of tests
	"internal/apiv1/access.go":         {"local"},                // the same, as users see it
}

// Nobody asks for a substrate by its name: what others must know of it stands in its capabilities. The names come from the list, so
// that a new driver is held to this from its first day.
func TestNobodyKnowsASubstrateByItsName(t *testing.T) {
	home := map[string]string{} // of each name, its folder
	for _, f := range drivers.Substrates() {
		home[f.Name] = ""
	}
	type found struct{ file, name string }
	var all []found
	for _, file := range tracked(t, "cmd/*.go", "internal/*.go", "images/*.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			continue // deleted, not committed yet
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if _, isImport := n.(*ast.ImportSpec); isImport {
				return false
			}
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if _, named := home[text]; err != nil || !named || slices.Contains(homonyms[file], text) {
				return true
			}
			if declares(file) {
				home[text] = path.Dir(file)
				return true
			}
			all = append(all, found{file, text})
			return true
		})
	}
	for name, folder := range home {
		if folder == "" {
			t.Errorf("no factory.go declares the driver %q", name)
		}
	}
	for _, f := range all {
		if folder := home[f.name]; folder == "" || !strings.HasPrefix(f.file, folder+"/") {
			t.Errorf("%s names the driver %q: ask for what it can instead", f.file, f.name)
		}
	}
}

// declares says that a file is where a driver says what it is.
func declares(file string) bool { return path.Base(file) == "factory.go" }
