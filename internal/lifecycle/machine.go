package lifecycle

import (
	"context"
	"fmt"
	"time"

	"muster/internal/inventory"
	"muster/internal/store"
)

// machineLooks is how often a machine that waits for its node looks again by itself.
const machineLooks = 5 * time.Second

// machineView is a machine as its handlers see it.
type machineView struct {
	store.Machine
	now time.Time
}

func (w World) machines() chart[machineView] {
	return chart[machineView]{
		db:   w.DB,
		of:   store.MachineKind,
		load: loadMachine,
		phases: map[store.Phase]phase[machineView]{
			store.Enrolled:    {handle: machineEnrolled},
			store.Inspecting:  {handle: w.machineInspect, deadline: w.Limits.Inspection, late: w.machineSilent},
			store.Available:   {handle: machineAvailable},
			store.Reserved:    {handle: machineReserved},
			store.InUse:       {handle: machineInUse},
			store.Releasing:   {handle: machineReleasing},
			store.Maintenance: {handle: machineMaintained},
			store.Quarantined: {handle: w.machineQuarantined},
		},
	}
}

func loadMachine(ctx context.Context, tx *store.Tx, id string) (machineView, subject, error) {
	m, err := tx.Machine(ctx, id)
	if err != nil {
		return machineView{}, subject{}, err
	}
	now, err := tx.Now(ctx)
	return machineView{m, now}, subject{m.Life, store.Event{Machine: m.Name}}, err
}

func machineEnrolled(context.Context, machineView) Outcome {
	return advance(store.Inspecting, "enrolled; is inspected before it is used")
}

// machineInspect lets only a machine that answered into the pool.
func (w World) machineInspect(ctx context.Context, m machineView) Outcome {
	if m.Desired == store.ForRemoval {
		return removal(m)
	}
	facts, err := w.Inspector.Inspect(ctx, m.Machine.Machine)
	if err != nil {
		return advance(store.Quarantined, "inspection: %v", err)
	}
	save := func(ctx context.Context, tx *store.Tx) error { return tx.SaveFacts(ctx, m.ID, m.Inspections, facts) }
	if m.Desired == store.ForMaintenance {
		return advance(store.Maintenance, "taken out of service").with(save)
	}
	return advance(store.Available, "%s", found(facts)).with(save)
}

func found(f inventory.Facts) string {
	return fmt.Sprintf("passed inspection: %d CPUs, %d MiB, %s", f.CPUs, f.MemoryMiB, f.CPUModel)
}

func (w World) machineSilent(machineView) Outcome {
	return advance(store.Quarantined, "did not answer the inspection within %s", w.Limits.Inspection)
}

func machineAvailable(_ context.Context, m machineView) Outcome {
	switch {
	case m.Holder != "":
		return advance(store.Reserved, "for %s", m.HolderName)
	case m.Desired == store.ForRemoval:
		return removal(m)
	case m.Desired == store.ForMaintenance:
		return advance(store.Maintenance, "taken out of service")
	case m.ToInspect:
		return advance(store.Inspecting, "inspection asked for")
	}
	return rest()
}

func machineReserved(_ context.Context, m machineView) Outcome {
	switch {
	case m.Holder == "":
		return advance(store.Releasing, "given back before its node began")
	case m.HolderBoot > 0:
		return advance(store.InUse, "by %s", m.HolderName)
	}
	return waitFor(machineLooks, "%s has not begun", m.HolderName)
}

func machineInUse(_ context.Context, m machineView) Outcome {
	if m.Holder == "" {
		return advance(store.Releasing, "its node is gone")
	}
	return waitFor(6*machineLooks, "by %s", m.HolderName)
}

// machineReleasing: its node left it only after the substrate had shown that nothing of it remained. What is left to
// prove is that the machine is healthy.
func machineReleasing(_ context.Context, m machineView) Outcome {
	if m.Suspect != "" {
		return advance(store.Quarantined, "%s", m.Suspect)
	}
	return advance(store.Inspecting, "is inspected before it is used again")
}

func machineMaintained(_ context.Context, m machineView) Outcome {
	switch {
	case m.Desired == store.ForRemoval:
		return removal(m)
	case m.Desired == store.ForService:
		return advance(store.Inspecting, "back in service; is inspected first")
	case m.ToInspect:
		return advance(store.Inspecting, "inspection asked for")
	}
	return rest()
}

// machineQuarantined comes back by itself: a fault that passes must not need a person.
func (w World) machineQuarantined(_ context.Context, m machineView) Outcome {
	switch {
	case m.Desired == store.ForRemoval:
		return removal(m)
	case m.ToInspect:
		return advance(store.Inspecting, "inspection asked for")
	}
	if left := w.Limits.Quarantine - m.now.Sub(m.PhaseAt); left > 0 {
		return waitFor(left, "%s", m.Reason)
	}
	return advance(store.Inspecting, "is inspected again after its quarantine")
}

func removal(m machineView) Outcome {
	o := advance(store.Removed, "has left the inventory").with(func(ctx context.Context, tx *store.Tx) error { return tx.ForgetMachine(ctx, m.ID) })
	o.asleep = true
	return o
}
