package monitor

import (
	"slices"
	"testing"

	"muster/internal/agent/protocol"
	"muster/internal/store"
)

func TestNeighboursAreThoseThatNobodyWouldMiss(t *testing.T) {
	node := func(name string, slot int, p store.Phase, jobs int) store.Node {
		n := store.Node{ID: name, Name: name, Slot: slot, Role: protocol.Compute, Desired: store.Present}
		n.Phase = p
		if p == store.Ready {
			n.Seen.Scheduler = &protocol.NodeState{State: protocol.StateOf(false, jobs > 0), Jobs: jobs}
		}
		return n
	}
	head := store.Node{ID: "head", Name: "head", Role: protocol.Head, Desired: store.Present}
	leaving := node("n9", 9, store.Ready, 0)
	leaving.Desired = store.Absent
	for _, c := range []struct {
		name   string
		number int64
		nodes  []store.Node
		want   []string
	}{
		{"alone", 1, []store.Node{head, node("n3", 3, store.Testing, 0)}, nil},
		{"all come at once: the next ones, then those before", 1, []store.Node{node("n1", 1, store.Testing, 0), node("n2", 2, store.Booting, 0), node("n3", 3, store.Testing, 0), node("n4", 4, store.Joining, 0)}, []string{"n4", "n1", "n2"}},
		{"those at work come first, but none with jobs", 1, []store.Node{node("n1", 1, store.Ready, 0), node("n2", 2, store.Ready, 2), node("n4", 4, store.Booting, 0)}, []string{"n1", "n4"}},
		{"none that is about to go", 1, []store.Node{node("n1", 1, store.Failed, 0), node("n2", 2, store.Releasing, 0), leaving}, nil},
		{"a second test begins with another", 2, []store.Node{node("n1", 1, store.Ready, 0), node("n2", 2, store.Ready, 0), node("n4", 4, store.Ready, 0)}, []string{"n1", "n2", "n4"}},
	} {
		self := node("n3", 3, store.Testing, 0)
		self.Test = c.number
		test := testOf(self, c.nodes, false)
		if test.Number != c.number || !slices.Equal(test.Neighbours, c.want) {
			t.Errorf("%s: %+v, want %v", c.name, test, c.want)
		}
	}
	if testOf(store.Node{}, nil, true) != nil {
		t.Error("a node that is asked nothing has a test")
	}
	if test := testOf(store.Node{Test: 1}, nil, true); !test.Brief {
		t.Error("a node that shares its CPUs takes a second of them")
	}
	if test := testOf(store.Node{Test: 1, Held: true}, nil, true); test.Brief {
		t.Error("a node that may be refused is measured in a few milliseconds")
	}
}
