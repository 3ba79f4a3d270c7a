package substratetest

import (
	"errors"
	"slices"
	"testing"

	"muster/internal/drivers/substrate"
)

// here is the host that nodes sleep on here.
const here = "here"

// sleepsAndWakes asks for each step twice: a controller that died after it asks again.
func sleepsAndWakes(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	if !h.Sleeper.CanSuspend(here) {
		t.Error("its nodes sleep, and its host says that they cannot")
	}
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

// replacedAsleep begins a later boot of a node that sleeps: what slept is never woken.
func replacedAsleep(t *testing.T, h Harness) {
	old := h.asleep(t)
	n := h.node("c1", 1, 2)
	must(t, h.Substrate.Ensure(t.Context(), n))
	h.wantRunning(t, n.Ref)
	if err := h.Sleeper.Wake(t.Context(), old, here); err == nil {
		t.Error("a boot woke that a later one had replaced")
	}
	h.wantRunning(t, n.Ref)
	h.wantList(t, n.Ref)
}

func removedAsleep(t *testing.T, h Harness) {
	n := h.asleep(t)
	must(t, h.Substrate.Remove(t.Context(), n.Ref))
	h.wantAbsent(t, n.Ref)
	if err := h.Sleeper.Wake(t.Context(), n, here); !errors.Is(err, substrate.ErrEnded) {
		t.Errorf("a node that was removed wakes: %v", err)
	}
	h.wantAbsent(t, n.Ref)
}

func (h Harness) asleep(t *testing.T) substrate.Node {
	t.Helper()
	n := h.running(t, "c1", 1, 1)
	_, err := h.Sleeper.Sleep(t.Context(), n.Ref, here)
	must(t, err)
	h.wantDead(t, n.Ref)
	return n
}

// staysAwake is for drivers that say that their nodes do not sleep.
func staysAwake(t *testing.T, h Harness) {
	if h.Caps.Sleeps {
		return
	}
	n := h.running(t, "c1", 1, 1)
	if h.Sleeper.CanSuspend(here) {
		t.Error("its nodes do not sleep, and a host says that they can")
	}
	if bytes, err := h.Sleeper.Sleep(t.Context(), n.Ref, here); err == nil {
		t.Errorf("its nodes do not sleep, and one was put to sleep, in %d bytes", bytes)
	}
	_ = h.Sleeper.Wake(t.Context(), n, here) // whatever it says, the node runs on
	h.wantRunning(t, n.Ref)
}
