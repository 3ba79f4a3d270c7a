package house

import (
	"go/token"
	"slices"
	"strings"
	"testing"

	"muster/internal/drivers"
)

// driverNames are the names of power controls, switches and fabrics, from the list.
func driverNames() []string {
	names := slices.Concat(drivers.Switches().Names(), drivers.Fabrics().Names())
	for _, f := range drivers.Power() {
		names = append(names, f.Scheme)
	}
	return names
}

// TestOnlyTheListKnowsDriversByName: whoever else writes a driver's name decides something that its declaration should.
func TestOnlyTheListKnowsDriversByName(t *testing.T) {
	// Names that are words of the trade too: nothing can be told from them alone.
	words := []string{"none", "bridge", "command"}
	// What publishes values of the API: the virtual rack, which answers for BMCs; the first lines of secrets' files.
	published := []string{"internal/rack/rack.go", "internal/kit/private/private.go"}
	names, found, house := driverNames(), map[string]bool{}, house(t)
	for f := range house.product() {
		if slices.Contains(published, f.path) {
			continue
		}
		house.eachString(t, f, func(at token.Position, text string) {
			for _, name := range names {
				whole := text == name && !slices.Contains(words, name)
				if !whole && !strings.HasPrefix(text, name+":/") && !(text == name+":" && !slices.Contains(words[:2], name)) {
					continue
				}
				if strings.HasPrefix(f.path, "internal/drivers/") {
					found[name] = true
				} else {
					t.Errorf("%s: %q: ask the driver's declaration", at, text)
				}
			}
		})
	}
	for _, name := range names {
		if !found[name] && !slices.Contains(words, name) {
			t.Errorf("no driver is called %q in its own folder: this test looks at nothing", name)
		}
	}
}
