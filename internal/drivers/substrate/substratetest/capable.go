package substratetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
)

// capable holds a driver to what it says of itself: nothing of that contradicts another thing, or what is seen of a node.
func capable(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	if seen := h.observe(t, n.Ref); (seen.Allocation != nil) && !h.Caps.Guest {
		t.Errorf("a node that is no guest has %+v of a host", seen.Allocation)
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
	h.wantRunning(t, substrate.Ref{Cluster: n.Cluster, Node: n.Node, Boot: n.Boot})
}

func bootsItsKernel(t *testing.T, h Harness) {
	for boot := range int64(2) { // a second time, over the first
		n := h.running(t, "c1", 1, boot+1)
		if got := h.Kernel(t, n.Ref); got != n.Image {
			t.Errorf("boot %d started the kernel of image %q, not that of %s", n.Boot, got, n.Image)
		}
	}
}

// hasItsCPUs has a second node ask for the same CPUs, for itself alone. It gets others, or none.
func hasItsCPUs(t *testing.T, h Harness) {
	first, second := h.running(t, "c1", 1, 1), h.node("c1", 2, 1)
	if part := h.observe(t, first.Ref).Allocation; part != nil {
		second.Allocation = new(*part)
		second.Allocation.Guest, second.Allocation.Share = second.Node, 1
	}
	if err := h.Substrate.Ensure(t.Context(), second); errors.Is(err, substrate.ErrRefused) {
		h.wantRunning(t, first.Ref)
		return
	} else if err != nil {
		t.Fatal(err)
	}
	h.wantRunning(t, second.Ref)
	has, others := h.CPUs(t, first.Ref), h.CPUs(t, second.Ref)
	if len(has) == 0 || len(others) == 0 {
		t.Errorf("one node runs on CPUs %q, another on %q", has, others)
	}
	for _, cpu := range has {
		if slices.Contains(others, cpu) {
			t.Errorf("two nodes run on CPU %s", cpu)
		}
	}
}

// hasItsMachine asks for little and for all: a whole machine is no less for that.
func hasItsMachine(t *testing.T, h Harness) {
	all, little := h.running(t, "c1", 1, 1), h.node("c1", 2, 1)
	little.CPUs, little.MemoryMiB = 1, 64
	must(t, h.Substrate.Ensure(t.Context(), little))
	h.wantRunning(t, little.Ref)
	if has, wants := h.observe(t, little.Ref).Limits, h.observe(t, all.Ref).Limits; has != wants {
		t.Errorf("a node that asked for little is limited to %+v, one that asked for all to %+v", has, wants)
	}
}

// hasItsPart: what a guest has of its host is told while it runs, and free when it has gone.
func hasItsPart(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	if seen := h.observe(t, n.Ref); seen.Allocation == nil || len(seen.Allocation.Cells) == 0 {
		t.Errorf("a guest that runs has %+v of its host", seen.Allocation)
	}
	must(t, h.Substrate.Remove(t.Context(), n.Ref))
	h.wantAbsent(t, n.Ref)
	h.running(t, "c1", 1, 2)
}

// runsHere looks at the node's first process from this host: it is there, and sees the sockets where its agent calls.
func runsHere(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	root := fmt.Sprintf("/proc/%d/root", h.Process(t, n.Ref))
	for _, endpoint := range h.endpoints(t) {
		folder, local := strings.CutPrefix(endpoint, "unix://")
		if _, err := os.Stat(root + folder); err != nil || !local {
			t.Errorf("its agent calls at %s, and that is not there: %v", endpoint, err)
		}
	}
}

func (h Harness) endpoints(t *testing.T) []string {
	all, err := h.Caller.Endpoints(t.Context())
	must(t, err)
	return all
}

func saysWhere(t *testing.T, h Harness) {
	first, later := h.endpoints(t), h.endpoints(t)
	if len(first) == 0 || !slices.Equal(first, later) {
		t.Errorf("agents call at %q, and a moment later at %q", first, later)
	}
	for _, endpoint := range first {
		if scheme, rest, ok := strings.Cut(endpoint, "://"); !ok || scheme == "" || rest == "" {
			t.Errorf("agents call at %q", endpoint)
		}
	}
}

func losesItsPower(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	if !h.Powered(t, n.Ref) {
		t.Error("a node runs on a machine without power")
	}
	h.Crash(t, n.Ref)
	h.wantDead(t, n.Ref)
	if h.Powered(t, n.Ref) {
		t.Error("a node has stopped, and its machine has power still")
	}
	again := h.node("c1", 1, 2)
	must(t, h.Substrate.Ensure(t.Context(), again))
	h.wantRunning(t, again.Ref)
	if !h.Powered(t, again.Ref) {
		t.Error("a node runs again on a machine without power")
	}
}

// takesTime: plans can be made with them.
func takesTime(t *testing.T, h Harness) {
	for what, d := range map[string]time.Duration{"become a node": h.Caps.Lead, "be free again": h.Caps.Turnaround} {
		if d < 0 || d > 24*time.Hour {
			t.Errorf("a machine takes %s to %s", d, what)
		}
	}
}
