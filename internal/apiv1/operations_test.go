package apiv1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestEveryOperationIsInTheTableAndWhole(t *testing.T) {
	ids := map[string]bool{}
	for _, op := range Operations() {
		if ids[op.ID] || op.ID == "" {
			t.Errorf("operation %q is there twice", op.ID)
		}
		ids[op.ID] = true
		if (op.Action != "") == op.Open {
			t.Errorf("%s: nothing says who may", op.ID)
		}
		if op.Summary == "" || op.Tag == "" || !strings.HasPrefix(op.Path, "/v1/") {
			t.Errorf("%s: summary %q, tag %q, path %q", op.ID, op.Summary, op.Tag, op.Path)
		}
		if strings.Contains(op.Path, "{") && len(op.Errors) == 0 {
			t.Errorf("%s names something, and no error says that it may not be there", op.ID)
		}
		if op.Method != "GET" && op.Method != "POST" && op.Method != "PUT" && op.Method != "DELETE" ||
			slices.Contains(op.Errors, 0) {
			t.Errorf("%s: method %s, errors %v", op.ID, op.Method, op.Errors)
		}
	}
	declared := 0
	for _, file := range []string{"operations.go", "operations_benchmarks.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				declared += len(g.Specs)
			}
		}
	}
	if declared != len(ids) {
		t.Errorf("%d operations are declared, %d are in the table", declared, len(ids))
	}
}
