package vm

import (
	"errors"
	"path/filepath"
	"testing"

	"muster/internal/drivers/substrate"
)

func TestAHostThatHoldsNoGuestsKnowsNothingOfThem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guests")
	opened, err := Factory().Open(t.Context(), substrate.Env{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	n := node("c1", 1, 1)
	_, seen := opened.Observe(t.Context(), n.Ref)
	_, slept := opened.(substrate.Sleeper).Sleep(t.Context(), n.Ref, "here")
	for what, err := range map[string]error{
		"it is made": opened.Ensure(t.Context(), n), "it is seen": seen, "it is removed": opened.Remove(t.Context(), n.Ref),
		"it sleeps": slept, "it wakes": opened.(substrate.Sleeper).Wake(t.Context(), n, "here"),
	} {
		if !errors.Is(err, errNoGuests) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if opened.(substrate.Sleeper).CanSuspend("here") || opened.(substrate.Emulator).Emulates() {
		t.Error("it says that guests sleep, or are emulated")
	}
	if refs, err := opened.List(t.Context()); err != nil || len(refs) > 0 {
		t.Error(refs, err)
	}
	if left, err := filepath.Glob(dir); err != nil || len(left) > 0 {
		t.Error("its folder was made", err)
	}
}
