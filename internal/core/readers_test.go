package core_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	externals "muster/internal/kinds/external"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
)

// readers are all functions of kinds that read without being told what; TestReadersAreAll holds that none is missing.
func readers() []any {
	return []any{
		authority.Dependents,
		authority.GatewayKeys,
		authority.Generations,
		authority.GenerationsRevision,
		externals.List,
		cluster.Revisions,
		cluster.Tenures,
		fabrics.Any,
		fabrics.List,
		fabrics.Topology,
		host.Acknowledgements,
		host.Alarms,
		host.AllSeen,
		host.Beyond,
		host.EveryHosted,
		host.Hostings,
		host.WithGuests,
		kinds.Count,
		machine.Boots,
		machine.List,
		network.DiscoveredMachines,
		network.List,
		node.LastTestResults,
		node.List,
		node.OwnNews,
		person.AccessRevision,
		person.List,
		person.Projects,
	}
}

// readAll calls them, and what of the transaction itself is like them.
func readAll(ctx context.Context, tx *core.Tx) error {
	of := reflect.ValueOf(tx)
	for i := range of.NumMethod() {
		method := of.Type().Method(i)
		if method.Type.NumIn() != 2 || method.Type.In(1) != reflect.TypeFor[context.Context]() || method.Type.NumOut() < 2 {
			continue
		}
		if err := failed(of.Method(i).Call([]reflect.Value{reflect.ValueOf(ctx)})); err != nil {
			return fmt.Errorf("%s: %w", method.Name, err)
		}
	}
	for _, f := range readers() {
		if err := failed(reflect.ValueOf(f).Call([]reflect.Value{reflect.ValueOf(ctx), of})); err != nil {
			return fmt.Errorf("%s: %w", nameOf(f), err)
		}
	}
	return nil
}

func failed(results []reflect.Value) error {
	err, _ := results[len(results)-1].Interface().(error)
	return err
}

// nameOf is "machine.List".
func nameOf(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndexByte(name, '/')+1:]
}

// TestReadersAreAll compares the list with the source of the kinds.
func TestReadersAreAll(t *testing.T) {
	var listed, found []string
	for _, f := range readers() {
		listed = append(listed, nameOf(f))
	}
	for _, pattern := range []string{"../kinds/*.go", "../kinds/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "kindstest") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range tree.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && reads(f) {
					found = append(found, tree.Name.Name+"."+f.Name.Name)
				}
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(found)
	if !slices.Equal(listed, found) {
		t.Errorf("listed are\n%q, there are\n%q", listed, found)
	}
}

// reads says that a function takes a context and a transaction alone, and returns something beside an error.
func reads(f *ast.FuncDecl) bool {
	if f.Recv != nil || !f.Name.IsExported() || f.Type.Params.NumFields() != 2 || f.Type.Results.NumFields() < 2 {
		return false
	}
	tx, ok := f.Type.Params.List[1].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := tx.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "Tx"
}
