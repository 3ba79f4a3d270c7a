package core_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/kinds/external"
	"muster/internal/kinds/kindstest"
)

// TestAStepThatIsLostIsDoneAgainWhileOthersGoOn: the leases of what its controller works on are prolonged all the time, and that
// of a step whose outcome could not be written is not.
func TestAStepThatIsLostIsDoneAgainWhileOthersGoOn(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		return errors.Join(external.Add(ctx, tx, external.Cluster{Name: "goes-on", HostKeys: []string{"x"}}),
			external.Add(ctx, tx, external.Cluster{Name: "lost", HostKeys: []string{"x"}}))
	})
	ctx, cancel := context.WithCancel(context.Background())
	again := make(chan struct{})
	steps := 0
	table := core.StateTable[external.Cluster]{
		DB: s, Of: external.Kind,
		Load: func(ctx context.Context, tx *core.Tx, id string) (external.Cluster, core.Subject, error) {
			c, err := external.Get(ctx, tx, id)
			return c, core.Subject{Life: c.Life}, err
		},
		Phases: map[core.Phase]core.Handler[external.Cluster]{core.Pending: {
			Do: func(ctx context.Context, c external.Cluster) core.Outcome {
				if c.Name == "goes-on" {
					<-ctx.Done()
					return core.Rest()
				}
				return core.Rest().With(func(context.Context, *core.Tx) error {
					if steps++; steps == 1 {
						return errors.New("the database does not take it")
					}
					close(again)
					return nil
				})
			},
		}},
	}
	engine := core.NewEngine(s, "e1", []core.Table{table}, telemetry.New("test"), slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- kindstest.Run(ctx, engine) }()
	select {
	case <-again:
	case <-time.After(time.Minute):
		t.Error("it was not done again")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
