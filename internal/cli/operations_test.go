package cli

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/apiv1"
)

// The table says which commands ask for an operation: each is there, and each operation that the sources here name has one.
func TestCommandsAreThoseOfTheTable(t *testing.T) {
	root := (&app{out: &screen{}, err: &screen{}}).root(nil)
	root.SetContext(context.Background())
	commands := map[string]bool{} // by operation's name in the sources: ListClusters
	for _, op := range apiv1.Operations() {
		for _, words := range op.Commands {
			found, rest, err := root.Find(strings.Fields(words))
			if err != nil || len(rest) > 0 || found.CommandPath() != "muster "+words {
				t.Errorf("%s: there is no command %q", op.ID, words)
			}
		}
		name := ""
		for word := range strings.SplitSeq(op.ID, "-") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		commands[name] = len(op.Commands) > 0
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(literal.Value, `"/v1/`) {
				t.Errorf("%s: path %s is written by hand", file, literal.Value)
			}
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "apiv1" {
					named[s.Sel.Name] = true
				}
			}
			return true
		})
	}
	for name, has := range commands {
		if has != named[name] {
			t.Errorf("%s: the table says that a command asks for it: %t; the sources: %t", name, has, named[name])
		}
	}
}
