package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryOperationIsServedAndWhole(t *testing.T) {
	var served []string
	for _, h := range (&API{}).handlers() {
		op := h.operation
		served = append(served, op.ID)
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
	files, err := filepath.Glob("../../api/v1/operations*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, file := range files {
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
	if declared != len(served) || declared == 0 {
		t.Errorf("%d operations are declared, %d are served", declared, len(served))
	}
}

func TestAnOperationHasOneHandlerAndARule(t *testing.T) {
	a := &API{}
	all := a.handlers()
	unruled := slices.Clone(all)
	unruled[0].operation.Action = ""
	for want, handlers := range map[string][]handler{
		"operation list-clusters has two handlers":    append(slices.Clone(all), all[0]),
		"operation list-clusters has no rule who may": unruled,
	} {
		if _, err := a.register(http.NewServeMux(), handlers); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
