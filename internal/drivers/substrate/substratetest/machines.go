package substratetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
)

// machine is one of those that are looked after apart from nodes.
func machine(name string) inventory.Machine { return inventory.Machine{ID: name, Name: name} }

// steps is how often something is called that is to be called again.
const steps = 100

// inspected takes an inspection to its end.
func (h Harness) inspected(t *testing.T, m inventory.Machine, number int64) (seen substrate.Inspected) {
	t.Helper()
	for range steps {
		var err error
		seen, err = h.Inspector.Inspect(t.Context(), substrate.Inspection{Machine: m, Number: number})
		switch {
		case errors.Is(err, substrate.ErrUnderway):
		case err != nil:
			t.Fatal(err)
		case seen.Done:
			if f := seen.Facts; f.Arch == "" || f.CPUs <= 0 && len(f.Layout) == 0 || f.MemoryMiB <= 0 {
				t.Errorf("machine %s was found to be %+v", m.Name, f)
			}
			return seen
		case seen.Stuck != "":
			t.Fatalf("the inspection of %s is stuck: %s", m.Name, seen.Stuck)
		case seen.Doing == "":
			t.Errorf("the inspection of %s is not done, and does nothing", m.Name)
		}
		if h.Agent != nil {
			h.Agent(t, m)
		}
	}
	t.Fatalf("the inspection of %s goes on and on: %+v", m.Name, seen)
	return seen
}

// rests has an unused machine be at rest, and says whether there was something to do.
func (h Harness) rests(t *testing.T, m inventory.Machine) (did string) {
	t.Helper()
	for range steps {
		first, err := h.Inspector.EnsureOff(t.Context(), m)
		if did == "" {
			did = first
		}
		if err == nil {
			return did
		} else if !errors.Is(err, substrate.ErrUnderway) {
			t.Fatal(err)
		}
	}
	t.Fatalf("machine %s does not come to rest", m.Name)
	return ""
}

func inspects(t *testing.T, h Harness) {
	m := machine("m1")
	h.rests(t, m)
	for number := range int64(2) {
		h.inspected(t, m, number+1)
		if did := h.rests(t, m); did != "" {
			t.Errorf("after its inspection machine %s was not at rest: %s", m.Name, did)
		}
	}
}

func inspectsEach(t *testing.T, h Harness) {
	for _, name := range []string{"m1", "m2"} {
		h.inspected(t, machine(name), 1)
	}
}

// keepsHosts makes a machine a hypervisor and ends it: nothing of it is left on.
func keepsHosts(t *testing.T, h Harness) {
	m := machine("m1")
	for range steps {
		_, stuck, err := h.HypervisorBooter.Host(t.Context(), m, 1)
		if err != nil && !errors.Is(err, substrate.ErrUnderway) || stuck != "" {
			t.Fatal(stuck, err)
		}
	}
	for range 2 {
		var err error
		for range steps {
			if err = h.HypervisorBooter.End(t.Context(), m); !errors.Is(err, substrate.ErrUnderway) {
				break
			}
		}
		must(t, err)
	}
	if did := h.rests(t, m); did != "" {
		t.Errorf("a hypervisor that has ended was not at rest: %s", did)
	}
}

func emulates(t *testing.T, h Harness) {
	if first := h.Emulator.Emulates(); first != h.Emulator.Emulates() {
		t.Errorf("it emulates: %t, and a moment later not so", first)
	}
}

func works(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Worker.Work(ctx)
	}()
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it works on when its context has ended")
	}
}
