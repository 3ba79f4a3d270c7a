package house

import (
	"go/ast"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestWordsOfTheAPIAreThoseOfItsTypes: a field whose type has constants says by its tag "enum" which of them it may hold. What a
// registry knows has no such tag: api fills it in.
func TestWordsOfTheAPIAreThoseOfItsTypes(t *testing.T) {
	house, words := house(t), map[string][]string{} // by the type's folder and name
	for f := range house.product() {
		for _, d := range f.syntax.Decls {
			declared, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range declared.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && v.Type != nil {
					for _, value := range v.Values {
						if of := constantOf(f, v.Type); of != "" && textOf(value) != "" {
							words[of] = append(words[of], textOf(value))
						}
					}
				}
			}
		}
	}
	held := 0
	for f := range house.product() {
		if path.Dir(f.path) != "api/v1" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			enum, tagged := reflect.StructTag(textOf(field.Tag)).Lookup("enum")
			known := words[constantOf(f, field.Type)]
			if !tagged || known == nil {
				return true
			}
			held++
			for word := range strings.SplitSeq(enum, ",") {
				if !slices.Contains(known, word) {
					t.Errorf("%s: %q is none of %q", house.set.Position(field.Pos()), word, known)
				}
			}
			return true
		})
	}
	if held == 0 {
		t.Error("no field of the API was found")
	}
}
