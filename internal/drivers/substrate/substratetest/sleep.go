package substratetest

import (
	"errors"
	"slices"
	"testing"

	"muster/internal/drivers/substrate"
)

// here is the host that nodes sleep on here.
const here = "here"

// sleepsAndWakes asks for each step twice: whoever died after it asks again.
func sleepsAndWakes(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	for range 2 {
		bytes, err := h.Sleeper.Sleep(t.Context(), n.Ref, here)
		must(t, err)
		if bytes <= 0 {
			t.Errorf("its memory takes %d bytes", bytes)
		}
		h.wantDead(t, n.Ref)
	}
	if seen := h.observe(t, n.Ref); seen.Allocation != nil {
		t.Errorf("asleep it has %+v of its host", seen.Allocation)
	}
	if refs, err := h.Substrate.List(t.Context()); err != nil || !slices.Contains(refs, n.Ref) {
		t.Errorf("List has not the node that sleeps, but %v (%v)", refs, err)
	}
	for range 2 {
		must(t, h.Sleeper.Wake(t.Context(), n, here))
		h.wantRunning(t, n.Ref)
	}
	_, err := h.Sleeper.Sleep(t.Context(), n.Ref, here) // and once more
	must(t, err)
	all := n.Ref
	all.Boot = 0
	must(t, h.Substrate.Remove(t.Context(), all))
	h.wantAbsent(t, n.Ref)
}

// whatIsNotThere neither sleeps nor wakes, and says so.
func whatIsNotThere(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	if err := h.Sleeper.Wake(t.Context(), h.node("c1", 2, 1), here); !errors.Is(err, substrate.ErrEnded) {
		t.Errorf("a node that is not there wakes: %v", err)
	}
	h.Crash(t, n.Ref)
	if _, err := h.Sleeper.Sleep(t.Context(), n.Ref, here); !errors.Is(err, substrate.ErrEnded) {
		t.Errorf("a dead node sleeps: %v", err)
	}
}
