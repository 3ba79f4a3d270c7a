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
	"bed": "memory file", "centre": "external cluster", "centres": "external clusters",
	"chart": "state table, or topology", "commons": "shared", "crowd": "failure domain",
	"desk": "admission", "ear": "listener",
	"ears": "listeners", "eyes": "observer", "forsake": "release", "hall": "preauth limit", "journey": "migration",
	"lull": "suspend", "pulse": "heartbeat",
	"rouse": "resume", "shun": "avoid", "shunned": "avoided", "sieve": "ingress filter", "soil": "mark dirty",
	"tape": "recording", "tenure": "lease",
	"terrain": "topology", "troupe": "fake agents", "turnable": "hypervisor on demand", "vigil": "alarm", "yard": "testbed",
}

// dialect are words of comments that a reader of plain English stumbles over, and what to say.
var dialect = map[string]string{
	"anew": "again", "nobody": "who it is that does not, or: is not done", "of which": "whose, or two sentences",
	"whoever": "the person who, the caller, any process that",
}

// TestCommentsArePlainEnglish looks at all comments, tests' included. The user of that name is written `nobody`.
func TestCommentsArePlainEnglish(t *testing.T) {
	word := regexp.MustCompile(`(?i)\b(anew|nobody|of\s+which|whoever)\b`)
	quoted := regexp.MustCompile("^[nN]obody|`[^`]*`|\"[^\"]*\"") // what is declared may have that name
	house, seen := house(t), 0
	for f := range house.code("api", "cmd", "internal", "test") {
		for _, group := range f.syntax.Comments {
			seen++
			for _, found := range word.FindAllString(quoted.ReplaceAllString(group.Text(), ""), -1) {
				found = strings.ToLower(strings.Join(strings.Fields(found), " "))
				t.Errorf("%s: a comment says %q; better: %s", house.set.Position(group.Pos()), found, dialect[found])
			}
		}
	}
	if seen < 1000 {
		t.Errorf("only %d comments were found: this test looks at nothing", seen)
	}
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
	for f := range house.code("api", "cmd", "internal", "test") {
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
