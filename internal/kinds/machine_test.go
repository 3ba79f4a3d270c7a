package kinds_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/protocol"
)

// brittle is an inspector whose machines fail while broken is set. It counts inspections.
type brittle struct {
	inspector
	broken      atomic.Bool
	inspections atomic.Int64
}

func (b *brittle) Inspect(ctx context.Context, i substrate.Inspection) (substrate.Inspected, error) {
	b.inspections.Add(1)
	seen, err := b.inspector.Inspect(ctx, i)
	if b.broken.Load() {
		seen.Checks = []protocol.Check{{Name: "memory", Text: "a bit is stuck"}}
	}
	return seen, err
}

// onlyMachine looks at the only machine that there is, waits until it is in a phase, and has it inspected.
func (s *fixture) onlyMachine() (newMachine func() machine.Machine, inPhase func(core.Phase), ask func()) {
	newMachine = func() (m machine.Machine) {
		s.view(func(ctx context.Context, tx *core.Tx) error {
			machines, err := machine.List(ctx, tx)
			m = machines[0]
			return err
		})
		return m
	}
	inPhase = func(p core.Phase) {
		s.Helper()
		if !s.eventually(func() bool { m := newMachine(); return m.Phase == p && !m.ToInspect }) {
			s.Fatalf("the machine is %s (%s), not %s", newMachine().Phase, newMachine().Reason, p)
		}
	}
	ask = func() {
		id := newMachine().ID
		s.update(func(ctx context.Context, tx *core.Tx) error { return machine.AskInspection(ctx, tx, id) })
	}
	return newMachine, inPhase, ask
}

func TestAFailedInspectionAnswersWhoeverAskedForIt(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 1)
	b := &brittle{}
	b.broken.Store(true)
	provider := s.deps.Providers["local"]
	provider.Inspector, provider.Limits.Quarantine = b, time.Hour
	s.deps.Providers = map[string]life.Provider{"local": provider}
	s.run(1)
	_, inPhase, ask := s.onlyMachine()
	inPhase(machine.Quarantined)
	ask()
	inPhase(machine.Quarantined)
	if n := b.inspections.Load(); n < 2 || n > 4 { // a step that is lost on a busy host is done again
		t.Errorf("%d inspections, want one at enrolment and one as asked", n)
	}
	b.broken.Store(false)
	ask()
	inPhase(machine.Available)
}

// doors is an inspector whose machines have a BMC with these users.
type doors struct {
	inspector
	users  atomic.Pointer[[]string]
	unread atomic.Bool
}

func (d *doors) Inspect(ctx context.Context, i substrate.Inspection) (substrate.Inspected, error) {
	seen, err := d.inspector.Inspect(ctx, i)
	seen.Facts.BMC = *d.users.Load()
	if d.unread.Load() {
		seen.Facts.BMC, seen.Unread = nil, "no answer"
	}
	return seen, err
}

// TestAUserLeftInABMCKeepsTheMachineApart until an operator has looked: neither time nor another inspection makes it clean.
func TestAUserLeftInABMCKeepsTheMachineApart(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 1)
	d := &doors{}
	are := func(users ...string) { d.users.Store(&users) }
	are(`user 2 "ADMIN": operator`)
	provider := s.deps.Providers["local"]
	provider.Inspector, provider.Limits.Quarantine = d, time.Hour
	s.deps.Providers = map[string]life.Provider{"local": provider}
	s.run(1)
	newMachine, inPhase, ask := s.onlyMachine()
	inPhase(machine.Available)
	id := newMachine().ID

	are(`user 2 "ADMIN": operator`, `user 3 "mallory": administrator`)
	for range 2 { // the second time it is not dirty any more, and no cluster had it in between
		ask()
		inPhase(machine.Quarantined)
		if reason := newMachine().Reason; !strings.Contains(reason, `bmc: now user 3 "mallory": administrator`) {
			t.Errorf("it is apart because: %s", reason)
		}
	}
	d.unread.Store(true)
	ask()
	inPhase(machine.Quarantined)
	if reason := newMachine().Reason; !strings.Contains(reason, "no answer") {
		t.Errorf("it is apart because: %s", reason)
	}
	d.unread.Store(false)
	are(`user 2 "ADMIN": operator`) // somebody has removed it
	ask()
	inPhase(machine.Available)
	if got := newMachine().Facts.BMC; len(got) != 1 {
		t.Errorf("%q", got)
	}

	are(`user 2 "ADMIN": operator`, `user 4 "oncall": operator`) // the site's own doing
	s.update(func(ctx context.Context, tx *core.Tx) error { return machine.Want(ctx, tx, id, machine.ForMaintenance) })
	inPhase(machine.Maintenance)
	ask()
	inPhase(machine.Maintenance)
	if got := newMachine().Facts.BMC; len(got) != 2 {
		t.Errorf("%q", got)
	}
	s.update(func(ctx context.Context, tx *core.Tx) error { return machine.Want(ctx, tx, id, machine.ForService) })
	inPhase(machine.Available)
}

// reluctant is an inspector whose machines take a while to go off: each first question is answered by that.
type reluctant struct {
	inspector
	inspected, rested atomic.Bool
}

func (r *reluctant) Inspect(ctx context.Context, i substrate.Inspection) (substrate.Inspected, error) {
	if !r.inspected.Swap(true) {
		return substrate.Inspected{}, fmt.Errorf("%w: it is switched off", substrate.ErrUnderway)
	}
	return r.inspector.Inspect(ctx, i)
}

func (r *reluctant) EnsureOff(context.Context, inventory.Machine) (string, error) {
	if !r.rested.Swap(true) {
		return "was on", fmt.Errorf("%w: it is switched off", substrate.ErrUnderway)
	}
	return "", nil
}

// TestAMachineThatGoesOffIsWaitedForInItsRow: that is no failure, holds no worker, and is told once.
func TestAMachineThatGoesOffIsWaitedForInItsRow(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 1)
	r := &reluctant{}
	provider := s.deps.Providers["local"]
	provider.Inspector = r
	s.deps.Providers = map[string]life.Provider{"local": provider}
	s.run(1)
	newMachine, inPhase, ask := s.onlyMachine()
	inPhase(machine.Available)
	if !s.eventually(func() bool { return strings.HasPrefix(newMachine().Reason, "passed") && r.rested.Load() }) {
		t.Fatalf("it is %s: %s", newMachine().Phase, newMachine().Reason)
	}
	ask()
	inPhase(machine.Available)
	rested := 0
	s.view(func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 5000})
		for _, e := range events {
			if e.Type == "machine.rested" {
				rested++
			}
		}
		return err
	})
	if m := newMachine(); rested != 1 || m.Failures != 0 || !r.inspected.Load() {
		t.Errorf("told %d times, %d failures", rested, m.Failures)
	}
}
