package agent

import (
	"strings"
	"testing"

	"muster/internal/agent/protocol"
)

func TestAddressesAreWithheldWhileSlurmdStarts(t *testing.T) {
	a := &addresses{disk: disk{root: t.TempDir()}}
	named := func(want ...string) {
		t.Helper()
		text, err := a.disk.read(addressFile)
		if err != nil || text == "" || strings.Count(text, "NodeName=") != len(want) {
			t.Fatalf("%q, %v; want %v", text, err, want)
		}
		for _, name := range want {
			if !strings.Contains(text, "NodeName="+name+" ") {
				t.Errorf("%q lacks %s", text, name)
			}
		}
	}
	want := func(names ...string) {
		t.Helper()
		var peers []protocol.Peer
		for _, name := range names {
			peers = append(peers, protocol.Peer{Name: name, Address: "10.77.0.9", Role: protocol.Compute})
		}
		if err := a.want(peers); err != nil {
			t.Fatal(err)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want("n1") // before slurmd's first start: slurm.conf includes the file, so that it must be there
	named()
	do(a.give())
	named("n1")
	want("n1", "n2")
	named("n1", "n2")
	do(a.withhold())
	named()
	want("n1")
	named()
	do(a.give())
	named("n1")
}
