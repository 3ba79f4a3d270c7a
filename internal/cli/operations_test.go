package cli

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The table says which commands ask for an operation: each is there, and each operation that the sources here name has one.
func TestCommandsAreThoseOfTheTable(t *testing.T) {
	root := (&app{out: &screen{}, err: &screen{}}).root(nil)
	root.SetContext(context.Background())
	table := commandsOfOperations(t)
	for name, commands := range table {
		for _, words := range commands {
			found, rest, err := root.Find(strings.Fields(words))
			if err != nil || len(rest) > 0 || found.CommandPath() != "muster "+words {
				t.Errorf("%s: there is no command %q", name, words)
			}
		}
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
	for name, commands := range table {
		if has := len(commands) > 0; has != named[name] {
			t.Errorf("%s: the table says that a command asks for it: %t; the sources: %t", name, has, named[name])
		}
	}
}

// commandsOfOperations reads the sources of the table: which commands ask for what is declared there.
func commandsOfOperations(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../../api/v1/operations*.go")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string][]string{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				name = n.Names[0].Name
				commands[name] = nil
			case *ast.KeyValueExpr:
				list, is := n.Value.(*ast.CompositeLit)
				if key, ok := n.Key.(*ast.Ident); !ok || !is || key.Name != "Commands" {
					break
				}
				for _, words := range list.Elts {
					commands[name] = append(commands[name], strings.Trim(words.(*ast.BasicLit).Value, `"`))
				}
			}
			return true
		})
	}
	if len(commands) == 0 {
		t.Fatal("no operation was found")
	}
	return commands
}
