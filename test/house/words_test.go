package house

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// foreign are words of no field that this house once had for things that have a name, beside that name. DESIGN's words and the
// field's are enough: a word of one's own is one that each reader must learn.
var foreign = map[string]string{
	"bed": "memory file", "chart": "state table, or topology", "commons": "shared", "crowd": "failure domain",
	"desk": "admission", "ear": "listener",
	"ears": "listeners", "eyes": "observer", "forsake": "release", "hall": "preauth limit", "journey": "migration",
	"lull": "suspend", "pulse": "heartbeat",
	"rouse": "resume", "shun": "avoid", "shunned": "avoided", "sieve": "ingress filter", "soil": "mark dirty",
	"tape": "recording", "tenure": "lease",
	"terrain": "topology", "troupe": "fake agents", "turnable": "hypervisor on demand", "vigil": "alarm", "yard": "testbed",
}

var wordsOf = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// TestNamesAreTheFieldsWords looks at the names of files and of what they declare, tests included.
func TestNamesAreTheFieldsWords(t *testing.T) {
	look := func(at, name string) {
		for _, w := range wordsOf.FindAllString(name, -1) {
			if better := foreign[strings.ToLower(w)]; better != "" {
				t.Errorf("%s: %s: %q is a word of our own; the field says %s", at, name, w, better)
			}
		}
	}
	house := house(t)
	for f := range house.code("cmd", "internal", "test") {
		look(f.path, strings.TrimSuffix(path.Base(f.path), ".go"))
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr: // others' names are theirs
				if id, is := n.X.(*ast.Ident); is {
					look(house.set.Position(id.Pos()).String(), id.Name)
					return false
				}
			case *ast.Ident:
				look(house.set.Position(n.Pos()).String(), n.Name)
			}
			return true
		})
	}
}
