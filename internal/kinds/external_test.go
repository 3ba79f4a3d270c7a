package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/external"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
)

// asked are clusters of others, which answer as the test says.
type asked struct {
	life.External
	answer func(ctx context.Context, c external.Cluster) error
}

func (a asked) Ask(ctx context.Context, c external.Cluster) (string, []external.Queue, error) {
	if err := a.answer(ctx, c); err != nil {
		return "", nil, err
	}
	return "Slurm 24.11", []external.Queue{{Name: "cpu", Nodes: 4}}, nil
}

// askAll has external clusters asked until the test ends. It returns one as it is once it is so.
func askAll(t *testing.T, s *core.Store, names []string, answer func(context.Context, external.Cluster) error) func(name,
	what string, so func(external.Cluster) bool) external.Cluster {
	t.Helper()
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		for _, name := range names {
			if err := external.Add(ctx, tx, external.Cluster{Name: name, Login: "arc:22", Probe: "muster",
				HostKeys: []string{"x"}}); err != nil {
				return err
			}
		}
		return nil
	})
	engine := kinds.NewEngine("e1", life.Deps{DB: s, External: asked{answer: answer}}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- kindstest.Run(ctx, engine) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return func(name, what string, so func(external.Cluster) bool) (c external.Cluster) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				c, err = external.Get(ctx, tx, name)
				return err
			})
			if so(c) {
				return c
			} else if time.Now().After(end) {
				t.Fatalf("waited in vain: %s; it is %+v", what, c)
			}
		}
	}
}

// TestAnExternalClusterIsAskedAgainOnceItIsChanged, and what it last answered is kept while it is silent.
func TestAnExternalClusterIsAskedAgainOnceItIsChanged(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		await := askAll(t, s, []string{"arc"}, func(_ context.Context, c external.Cluster) error {
			if c.Probe == "locked" {
				return errors.New("arc:22 does not let account locked in")
			}
			return nil
		})
		change := func(c external.Cluster, probe string) {
			c.Probe = probe
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return external.Change(ctx, tx, c) })
		}
		c := await("arc", "it answers", func(c external.Cluster) bool { return c.Asked() && c.Phase == core.Ready })
		if c.Silent() || c.SeenAt.IsZero() || c.System != "Slurm 24.11" || len(c.Queues) != 1 {
			t.Errorf("it answered, and is %+v", c)
		}
		change(c, "locked")
		c = await("arc", "it does not answer", func(c external.Cluster) bool { return c.Asked() && c.Silent() })
		if c.Reason != "external cluster arc does not answer: arc:22 does not let account locked in" || len(c.Queues) != 1 {
			t.Errorf("it is silent, and is %+v", c)
		}
		change(c, "muster")
		await("arc", "it answers again", func(c external.Cluster) bool { return c.Asked() && c.Phase == core.Ready })
	})
}

// TestAnAnswerThatAChangeHasOvertakenIsNotTaken: what was asked was not what is registered now.
func TestAnAnswerThatAChangeHasOvertakenIsNotTaken(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	asking, changed := make(chan external.Cluster, 1), make(chan struct{})
	await := askAll(t, s, []string{"arc"}, func(_ context.Context, c external.Cluster) error {
		if c.Login == "arc:23" {
			return nil
		}
		asking <- c
		<-changed
		return errors.New("arc:22 does not answer")
	})
	c := <-asking
	c.Login = "arc:23"
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return external.Change(ctx, tx, c) })
	close(changed)
	await("arc", "it answers", func(c external.Cluster) bool { return c.Asked() && c.Phase == core.Ready })
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 100})
		for _, e := range events {
			if e.Phase == core.Degraded {
				t.Errorf("it was silent: %+v", e)
			}
		}
		return err
	})
}

// TestSilentExternalClustersLeaveTheEngineToOthers: each that is asked holds a worker of the engine, which has 128.
func TestSilentExternalClustersLeaveTheEngineToOthers(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("arc%d", i))
	}
	var now, most atomic.Int64
	silent := make(chan struct{})
	await := askAll(t, kindstest.Open(t, t.TempDir()+"/db"), names, func(ctx context.Context, _ external.Cluster) error {
		n := now.Add(1)
		defer now.Add(-1)
		for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
		}
		select {
		case <-silent:
		case <-ctx.Done():
		}
		return nil
	})
	for end := time.Now().Add(time.Minute); now.Load() < 16 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	time.Sleep(300 * time.Millisecond) // the others have asked for their turn
	close(silent)
	for _, name := range names {
		await(name, "it answers", func(c external.Cluster) bool { return c.Asked() })
	}
	if most.Load() != 16 {
		t.Errorf("%d were asked at the same time", most.Load())
	}
}
