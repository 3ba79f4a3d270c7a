package substratetest

import (
	"testing"

	"muster/internal/drivers/substrate"
)

// capable holds a driver to what it says of itself: what it can there is something for, and what it cannot is refused, while
// the node runs on.
func capable(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	if seen := h.observe(t, n.Ref); (seen.Allocation != nil) && !h.Caps.Guest {
		t.Errorf("a node that is no guest has %+v of a host", seen.Allocation)
	}
	if h.Caps.KeepsHead != (h.Keep != nil) {
		t.Errorf("it keeps what heads have: %t; there is a keeper of it: %t", h.Caps.KeepsHead, h.Keep != nil)
	}
	c := h.Caps
	for what, contradicts := range map[string]bool{
		"a node has a whole machine and is a part of one":            c.WholeMachine && c.Guest,
		"a node has a whole machine and shares its CPUs":             c.WholeMachine && !c.OwnCPUs,
		"a node boots a kernel of its own and runs under its host's": c.Kernel && c.OnHost,
		"a node has a whole machine, which nobody enrols":            c.WholeMachine && c.Enrols == substrate.NotEnrolled,
		"a guest's machine is made with it, and is enrolled":         c.Guest && c.Enrols != substrate.NotEnrolled,
		"its machines lose their power, and have a host's kernel":    c.Power && c.OnHost,
	} {
		if contradicts {
			t.Errorf("%s: %+v", what, c)
		}
	}
	if h.Caps.Sleeps && h.Sleeper == nil {
		t.Error("its nodes sleep, and nothing puts them to sleep")
	}
	if h.Sleeper != nil && !h.Caps.Sleeps {
		if h.Sleeper.Rests(here) {
			t.Error("its nodes do not sleep, and a host says that they can")
		}
		if bytes, err := h.Sleeper.Sleep(t.Context(), n.Ref, here); err == nil {
			t.Errorf("its nodes do not sleep, and one was put to sleep, in %d bytes", bytes)
		}
	}
	if h.Mover != nil && !h.Caps.Moves {
		if h.Mover.Reaches(here) {
			t.Error("its nodes do not move, and a host says that they can")
		}
		if err := h.Mover.Move(t.Context(), n, here, "there"); err == nil {
			t.Error("its nodes do not move, and one did")
		}
	}
	h.wantRunning(t, substrate.Ref{Cluster: n.Cluster, Node: n.Node, Boot: n.Boot})
}
