package monitor

import (
	"cmp"
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// neighboursAsked is how many neighbours a node that is tested may try.
const neighboursAsked = 3

// testOf is the test that a node is to make; nil if it is to make none.
func testOf(self node.Node, nodes []node.Node, shared bool) *protocol.Test {
	if self.Test == 0 {
		return nil
	}
	test := &protocol.Test{Number: self.Test, Hold: self.Held, Brief: shared && !self.Held}
	if self.Role == protocol.Compute {
		test.Neighbours = neighbours(self, nodes)
	}
	return test
}

// neighbours are the compute nodes that a node may measure the network to, the best first: those at work before those on
// their way, the next by name before those far off. None where a job runs, which it would disturb. Every further test
// begins with another one: what is slow may be the neighbour.
func neighbours(self node.Node, nodes []node.Node) []string {
	var fit []node.Node
	for _, n := range nodes {
		busy := n.Seen.Scheduler != nil && !n.Seen.Scheduler.Idle()
		if n.ID != self.ID && n.Role == protocol.Compute && n.Desired == core.Present && !busy && n.Phase != core.Failed &&
			n.Phase != core.Releasing {
			fit = append(fit, n)
		}
	}
	behind := func(n node.Node) int { // those after self come first
		if n.Slot > self.Slot {
			return 0
		}
		return 1
	}
	waits := func(n node.Node) int {
		if n.Phase == core.Ready {
			return 0
		}
		return 1
	}
	slices.SortFunc(fit, func(a, b node.Node) int {
		return cmp.Or(cmp.Compare(waits(a), waits(b)), cmp.Compare(behind(a), behind(b)), cmp.Compare(a.Slot, b.Slot))
	})
	var names []string
	for i := range min(neighboursAsked, len(fit)) {
		names = append(names, fit[(int(self.Test)-1+i)%len(fit)].Name)
	}
	return names
}
