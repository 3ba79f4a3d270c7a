package remote_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/fabric"
	"muster/internal/place"
	"muster/internal/protocol"
)

func described() substrate.Node {
	return substrate.Node{
		Ref: substrate.Ref{Cluster: "c", Node: "n", Boot: 3}, Name: "n1", Machine: "r1-g1", Address: substrate.Address(259),
		MAC:   substrate.MAC(7, 259),
		Image: "sha256:00", CPUs: 2, MemoryMiB: 768,
		File: protocol.BootFile{Node: "n", Name: "n1", Boot: 3, Token: "t", Endpoints: []string{"https://10.77.0.1:7421"}},
		Allocation: &place.Allocation{Guest: "r1-g1", Share: 2,
			Cells: []place.Cell{{NUMA: 1, Cores: []int{4, 5}, MemoryMiB: 768}}, Devices: []string{"0000:41:00.0"}},
		Asked: place.Guest{CPUs: 2, MemoryMiB: 768, Devices: map[string]int{"gpu": 1}, Locality: place.Required, Share: 2},
		Keys:  map[fabric.GUID]fabric.Key{0: 0x0123, 0x0002c903000a0b0d: 0x7ffe},
	}
}

func TestAKeyThatIsNoPartitionsIsRefusedByTheHypervisor(t *testing.T) {
	for _, keys := range []map[string]uint16{{"": 0}, {"": 0x7fff}, {"": 0x8001}, {"0x0": 1}, {"port 1": 1}} {
		g, err := remote.Guest(described())
		if err != nil {
			t.Fatal(err)
		}
		g.Keys = keys
		if n, err := remote.Node(g); err == nil {
			t.Errorf("%v: %v", keys, n.Keys)
		}
	}
}

func TestAHypervisorMakesWhatWasDescribed(t *testing.T) {
	n := described()
	g, err := remote.Guest(n)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var directives protocol.HostedGuest
	if err := json.Unmarshal(wire, &directives); err != nil {
		t.Fatal(err)
	}
	made, err := remote.Node(directives)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(n, made, cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Errorf("described and made differ:\n%s", d)
	}
	seen := substrate.Observation{Present: true, Running: true, Boot: 3,
		Limits: substrate.Limits{CPU: "2 cpus", Memory: "768 MiB"}, Detail: "d", Allocation: n.Allocation}
	said, err := remote.State(n.Ref, seen)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Seen(said)
	if d := cmp.Diff(seen, got); d != "" || err != nil {
		t.Errorf("observed there and here differ: %v\n%s", err, d)
	}
}

// FuzzSeen reads what a hypervisor may say, even one whose agent somebody has taken over: it is refused, or can be said again.
func FuzzSeen(f *testing.F) {
	f.Add([]byte(`{"cluster":"c","node":"n","boot":3,"present":true,"running":true,"cpu":"2 cpus","memory":"768 MiB","holding":{"guest":"g","cells":[{"numa":0,"cores":[1],"memory_mib":768}],"share":1}}`))
	f.Add([]byte(`{"node":"n","present":true,"holding":null}`))
	f.Add([]byte(`{"node":"n","present":true,"holding":"no"}`))
	f.Add([]byte(`{"node":"n","boot":-1,"try":9,"refused":"its huge pages are gone"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s protocol.HostedState
		if json.Unmarshal(text, &s) != nil {
			return
		}
		seen, err := remote.Seen(s)
		if err != nil {
			return
		}
		said, err := remote.State(substrate.Ref{Cluster: s.Cluster, Node: s.Node, Boot: s.Boot}, seen)
		if err != nil {
			t.Fatal(err)
		}
		again, err := remote.Seen(said)
		if d := cmp.Diff(seen, again, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("%v\n%s", err, d)
		}
	})
}
