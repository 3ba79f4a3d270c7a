package monitor

import (
	"slices"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

func TestNeighboursAreThoseThatNobodyWouldMiss(t *testing.T) {
	newNode := func(name string, slot int, p core.Phase, jobs int) node.Node {
		n := node.Node{ID: name, Name: name, Slot: slot, Role: protocol.Compute, Desired: core.Present}
		n.Phase = p
		if p == core.Ready {
			n.Seen.Scheduler = &protocol.NodeState{State: protocol.StateOf(false, jobs > 0), Jobs: jobs}
		}
		return n
	}
	head := node.Node{ID: "head", Name: "head", Role: protocol.Head, Desired: core.Present}
	leaving := newNode("n9", 9, core.Ready, 0)
	leaving.Desired = node.Absent
	for _, c := range []struct {
		name   string
		number int64
		nodes  []node.Node
		want   []string
	}{
		{"alone", 1, []node.Node{head, newNode("n3", 3, node.Testing, 0)}, nil},
		{"all come at once: the next ones, then those before", 1,
			[]node.Node{newNode("n1", 1, node.Testing, 0), newNode("n2", 2, node.Booting, 0), newNode("n3", 3, node.Testing, 0),
				newNode("n4", 4, node.Joining, 0)}, []string{"n4", "n1", "n2"}},
		{"those at work come first, but none with jobs",
			1, []node.Node{newNode("n1", 1, core.Ready, 0), newNode("n2", 2, core.Ready, 2), newNode("n4", 4, node.Booting, 0)},
			[]string{"n1", "n4"}},
		{"none that is about to go", 1, []node.Node{newNode("n1", 1, core.Failed, 0), newNode("n2", 2, core.Releasing, 0),
			leaving}, nil},
		{"a second test begins with another", 2, []node.Node{newNode("n1", 1, core.Ready, 0), newNode("n2", 2, core.Ready, 0),
			newNode("n4", 4, core.Ready, 0)}, []string{"n1", "n2", "n4"}},
	} {
		self := newNode("n3", 3, node.Testing, 0)
		self.Test = c.number
		test := testOf(self, c.nodes, false)
		if test.Number != c.number || !slices.Equal(test.Neighbours, c.want) {
			t.Errorf("%s: %+v, want %v", c.name, test, c.want)
		}
	}
	if testOf(node.Node{}, nil, true) != nil {
		t.Error("a node that is asked nothing has a test")
	}
	if test := testOf(node.Node{Test: 1}, nil, true); !test.Brief {
		t.Error("a node that shares its CPUs takes a second of them")
	}
	if test := testOf(node.Node{Test: 1, Held: true}, nil, true); test.Brief {
		t.Error("a node that may be refused is measured in a few milliseconds")
	}
}
