package lifecycle_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/lifecycle"
	"muster/internal/store"
)

// brittle is an inspector whose machines fail while broken is set. It counts inspections.
type brittle struct {
	inspector
	broken      atomic.Bool
	inspections atomic.Int64
}

func (b *brittle) Inspect(ctx context.Context, i lifecycle.Inspection) (lifecycle.Inspected, error) {
	b.inspections.Add(1)
	seen, err := b.inspector.Inspect(ctx, i)
	if b.broken.Load() {
		seen.Checks = []protocol.Check{{Name: "memory", Text: "a bit is stuck"}}
	}
	return seen, err
}

func TestAFailedInspectionAnswersWhoeverAskedForIt(t *testing.T) {
	s := newStage(t, t.TempDir()+"/db", 1)
	b := &brittle{}
	b.broken.Store(true)
	ground := s.world.Grounds["local"]
	ground.Inspector, ground.Limits.Quarantine = b, time.Hour
	s.world.Grounds = map[string]lifecycle.Ground{"local": ground}
	s.run(1)
	machine := func() (m store.Machine) {
		s.view(func(ctx context.Context, tx *store.Tx) error {
			machines, err := tx.Machines(ctx)
			m = machines[0]
			return err
		})
		return m
	}
	inPhase := func(p store.Phase) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); machine().Phase != p || machine().ToInspect; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the machine is %s (%s), not %s", machine().Phase, machine().Reason, p)
			}
		}
	}
	ask := func() {
		id := machine().ID
		s.update(func(ctx context.Context, tx *store.Tx) error { return tx.AskInspection(ctx, id) })
	}
	inPhase(store.Quarantined)
	ask()
	inPhase(store.Quarantined)
	if n := b.inspections.Load(); n != 2 {
		t.Errorf("%d inspections, want one at enrolment and one as asked", n)
	}
	b.broken.Store(false)
	ask()
	inPhase(store.Available)
}
