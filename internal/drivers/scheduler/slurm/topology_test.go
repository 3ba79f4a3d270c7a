package slurm

import (
	"testing"

	"muster/internal/noded/protocol"
)

func TestNodesAreListedByTheirSwitch(t *testing.T) {
	peers := []protocol.Peer{
		{Name: "head"}, {Name: "cpu1", Leaf: "leaf02", LeafNumber: 2}, {Name: "cpu2", Leaf: "leaf01+leaf 3", LeafNumber: 1},
		{Name: "cpu3", Leaf: "leaf02", LeafNumber: 2}, {Name: "cpu4"},
	}
	want := `# Written by muster; changes are overwritten. This cluster's Slurm does not read it: nodes have their switch as a feature.
SwitchName=leaf01_leaf_3 Nodes=cpu2
SwitchName=leaf02 Nodes=cpu1,cpu3
SwitchName=muster_top Switches=leaf01_leaf_3,leaf02
`
	if got := RenderTopology(peers); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := RenderTopology(peers[:1]); got != "" {
		t.Errorf("where nothing is known: %q", got)
	}
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
