package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoPackageCompilesRegularExpressionsAtItsStart: the program is started in every node and for every command. package
// kit/pattern compiles at the first use.
func TestNoPackageCompilesRegularExpressionsAtItsStart(t *testing.T) {
	top := root(t)
	for _, file := range tracked(t, "*.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range tree.Decls {
			if _, does := declared.(*ast.GenDecl); !does {
				continue
			}
			ast.Inspect(declared, func(n ast.Node) bool {
				if _, later := n.(*ast.FuncLit); later {
					return false
				}
				call, is := n.(*ast.CallExpr)
				if !is {
					return true
				}
				if to, is := call.Fun.(*ast.SelectorExpr); is && to.Sel.Name == "MustCompile" {
					t.Errorf("%s compiles a regular expression before anything begins; use pattern.New", file)
				}
				return true
			})
		}
	}
}
