package house

import (
	"go/ast"
	"strings"
	"testing"
)

// TestNoPackageCompilesRegularExpressionsAtItsStart: the program is started in every node and for every command. package
// kit/pattern compiles at the first use.
func TestNoPackageCompilesRegularExpressionsAtItsStart(t *testing.T) {
	for f := range house(t).code("cmd", "internal", "images", "test", "api") {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, declared := range f.syntax.Decls {
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
					t.Errorf("%s compiles a regular expression before anything begins; use pattern.New", f.path)
				}
				return true
			})
		}
	}
}
