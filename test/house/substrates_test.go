package house

import (
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"muster/internal/drivers"
)

// homonyms are words that are a driver's name and mean something else, and values that people write in files: where, and what.
var homonyms = map[string][]string{
	"internal/spec/types.go":           {"local", "metal", "vm"}, // values of isolation, which are published
	"internal/kinds/person/token.go":   {"local"},                // the token of the controller's own host
	"internal/kinds/kindstest/rows.go": {"local"},                // machines of tests
	"internal/apiv1/access.go":         {"local"},                // the same, as users see it
}

// Nobody asks for a substrate by its name: what others must know of it stands in its capabilities. The names come from the list, so
// that a new driver is held to this from its first day.
func TestNobodyKnowsASubstrateByItsName(t *testing.T) {
	home := map[string]string{} // of each name, its folder
	for _, f := range drivers.Substrates() {
		home[f.Name] = ""
	}
	type found struct{ file, name string }
	var all []found
	house := house(t)
	for f := range house.product() {
		house.eachString(t, f, func(_ token.Position, text string) {
			switch _, named := home[text]; {
			case !named || slices.Contains(homonyms[f.path], text):
			case declares(f.path):
				home[text] = path.Dir(f.path)
			default:
				all = append(all, found{f.path, text})
			}
		})
	}
	for name, folder := range home {
		if folder == "" {
			t.Errorf("no factory.go declares the driver %q", name)
		}
	}
	for _, f := range all {
		if folder := home[f.name]; folder == "" || !strings.HasPrefix(f.file, folder+"/") {
			t.Errorf("%s names the driver %q: ask for what it can instead", f.file, f.name)
		}
	}
}

// declares says that a file is where a driver says what it is.
func declares(file string) bool { return path.Base(file) == "factory.go" }
