package slurm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
)

func TestNodesAreListedByTheirSwitch(t *testing.T) {
	node := func(name, leaf string, number int) protocol.Peer {
		return protocol.Peer{Name: name, Role: protocol.Compute, Leaf: leaf, LeafNumber: number}
	}
	peers := []protocol.Peer{{Name: "head", Role: protocol.Head}, node("cpu4", "", 0), node("cpu1", "leaf02", 2),
		node("cpu2", "leaf01+leaf 3", 1), node("cpu3", "leaf02", 2)}
	const unread = "# This cluster's Slurm does not read it: nodes have their switch as a feature.\n"
	const want = `SwitchName=leaf01_leaf_3 Nodes=cpu2
SwitchName=leaf02 Nodes=cpu1,cpu3
SwitchName=muster_unknown Nodes=cpu4
SwitchName=muster_top Switches=leaf01_leaf_3,leaf02,muster_unknown
`
	if got := RenderTopology(peers, true); got != written+want {
		t.Errorf("got\n%s", got)
	}
	if got := RenderTopology(peers, false); got != written+unread+want {
		t.Errorf("got\n%s", got)
	}
	if got := RenderTopology(peers[:2], true); got != "" {
		t.Errorf("where nothing is known: %q", got)
	}
}

// TestSlurmReadsWhereNewNodesAre: slurmctld restarts for the first switch, and reads its files again for nodes that come. Until
// then those are not said to be free.
func TestSlurmReadsWhereNewNodesAre(t *testing.T) {
	var ran []string
	broken := errors.New("no")
	c := Control{func(_ context.Context, argv ...string) ([]byte, error) {
		ran = append(ran, strings.Join(argv, " "))
		return nil, broken
	}}
	var s switches
	see := func(read int, names ...string) (states []protocol.State) {
		t.Helper()
		ran = nil
		var nodes []protocol.NodeState
		for _, name := range names {
			nodes = append(nodes, protocol.NodeState{Name: name, State: protocol.NodeFree})
		}
		if err := s.saw(t.Context(), c, nodes); (err != nil) != (read > 0 && broken != nil) || len(ran) != read {
			t.Errorf("%q: %v, it ran %q", names, err, ran)
		}
		for _, n := range nodes {
			states = append(states, n.State)
		}
		return states
	}
	const free, unknown = protocol.NodeFree, protocol.NodeUnknown
	is := func(got []protocol.State, want ...protocol.State) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	is(see(0, "n1"), free) // no switch is known
	if !s.want() || s.want() {
		t.Error("slurmctld restarts once")
	}
	is(see(1, "n1"), unknown)
	s.at, broken = s.at.Add(-time.Second), nil
	is(see(1, "n1"), free)
	is(see(0, "n1", "n2"), free, unknown) // so soon again
	s.at = s.at.Add(-time.Second)
	is(see(1, "n1", "n2"), free, free)
	is(see(0, "n2"), free)
	s.at = s.at.Add(-time.Second)
	s.without("n2")
	is(see(1, "n2"), free)
}

func TestANodeHasItsSwitchAsAFeature(t *testing.T) {
	for want, peer := range map[string]protocol.Peer{
		"CPUs=2 Feature=cpu,switch_leaf01_leaf02 Weight=7": {CPUs: 2, Queue: "cpu", Leaf: "leaf01+leaf02", LeafNumber: 7},
		"Feature=switch_a_b_c_":                            {Leaf: "a|b,c]"},
		"Feature=cpu":                                      {Queue: "cpu"},
	} {
		if got := NodeConf(peer, nil, 0); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
