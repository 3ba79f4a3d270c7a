package substratetest

import (
	"errors"
	"testing"

	"muster/internal/drivers/substrate"
)

// there is another host, to which nodes move.
const there = "there"

// at is the harness as one sees it whose nodes are on a host.
func (h Harness) at(host string) Harness {
	if h.At != nil {
		h.Substrate = h.At(host)
	}
	return h
}

// moves asks for each move twice: a controller that died after it asks again.
func moves(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	for _, host := range []string{here, there} {
		if !h.Mover.Reaches(host) {
			t.Errorf("its nodes move, and none can move from and to host %s", host)
		}
	}
	for _, way := range []struct{ from, to string }{{here, there}, {there, here}} {
		for range 2 {
			must(t, h.Mover.Move(t.Context(), n, way.from, way.to))
			h.at(way.to).wantRunning(t, n.Ref)
			if h.At != nil {
				h.at(way.from).wantAbsent(t, n.Ref)
			}
		}
	}
	for range 2 {
		must(t, h.Mover.Forget(t.Context(), n.Ref, there))
	}
	h.at(here).wantRunning(t, n.Ref)
	must(t, h.Substrate.Remove(t.Context(), n.Ref))
}

func deadStays(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	h.Crash(t, n.Ref)
	if err := h.Mover.Move(t.Context(), n, here, there); !errors.Is(err, substrate.ErrEnded) {
		t.Errorf("a node that died moves: %v", err)
	}
	if h.At != nil {
		h.at(there).wantAbsent(t, n.Ref)
	}
}

// stays is for drivers that say that their nodes do not move.
func stays(t *testing.T, h Harness) {
	if h.Caps.Moves {
		return
	}
	n := h.running(t, "c1", 1, 1)
	if h.Mover.Reaches(here) {
		t.Error("its nodes do not move, and a host says that they can")
	}
	if err := h.Mover.Move(t.Context(), n, here, there); err == nil {
		t.Error("its nodes do not move, and one did")
	}
	must(t, h.Mover.Forget(t.Context(), n.Ref, there))
	h.wantRunning(t, n.Ref)
}
