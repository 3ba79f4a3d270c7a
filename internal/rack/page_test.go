package rack

import (
	"bytes"
	"os"
	"testing"
)

// TestThePageShowsTheListOfARack: what it shows is typed as it stands there.
func TestThePageShowsTheListOfARack(t *testing.T) {
	page, err := os.ReadFile("../../docs/bare-metal.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := List("rack", "/var/lib/muster-rack/bmc.credentials", "", []Machine{
		{Name: "rack-1", MACs: []string{"52:54:00:00:01:00"}, Ports: []string{"m1n0"}, Power: WoL},
	})
	if !bytes.Contains(page, shown) {
		t.Errorf("docs/bare-metal.md does not show\n%s", shown)
	}
}
