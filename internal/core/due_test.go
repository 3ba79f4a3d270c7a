package core_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

func TestOneLookSaysWhatIsDueAndHowLongTheRestMayWait(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		of := []core.Kind{cluster.Kind, node.Kind, machine.Kind}
		look := func() (due []core.Kind, next time.Duration) {
			t.Helper()
			due, next, err := s.Due(t.Context(), of)
			if err != nil {
				t.Fatal(err)
			}
			return due, next
		}
		if due, next := look(); len(due) != 0 || next >= 0 {
			t.Errorf("an empty site: %v is due, the next one in %v", due, next)
		}
		kindstest.AddMachines(t, s, 2)
		if due, _ := look(); !slices.Equal(due, []core.Kind{machine.Kind}) {
			t.Errorf("new machines: %v is due", due)
		}
		claims, err := s.Claim(t.Context(), machine.Kind, "a", time.Hour, 10)
		if err != nil || len(claims) != 2 {
			t.Fatal(claims, err)
		}
		if due, next := look(); len(due) != 0 || next >= 0 {
			t.Errorf("all are held: %v is due, the next one in %v", due, next)
		}
		for i, settlement := range []core.Settlement{{Phase: machine.Enrolled, After: time.Hour},
			{Phase: machine.Enrolled, Never: true}} {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return tx.Settle(ctx, claims[i], settlement) })
		}
		if due, next := look(); len(due) != 0 || next <= 59*time.Minute || next > time.Hour {
			t.Errorf("one waits an hour and one for ever: %v is due, the next one in %v", due, next)
		}
		kindstest.Update(t, s, func(_ context.Context, tx *core.Tx) error { tx.Wake(machine.Kind, claims[1].ID); return nil })
		if due, _ := look(); !slices.Equal(due, []core.Kind{machine.Kind}) {
			t.Errorf("one was woken: %v is due", due)
		}
	})
}

func TestWhatIsDueIsFoundByItsIndex(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		for _, kind := range []core.Kind{cluster.Kind, node.Kind, machine.Kind} {
			kindstest.UsesIndex(t, s, string(kind)+"_wake", core.NextWake(kind))
		}
	})
}

// TestManyCommitsAreOneLook: what a follower costs does not grow with what others write.
func TestManyCommitsAreOneLook(t *testing.T) {
	s := kindstest.Open(t, filepath.Join(t.TempDir(), "db"))
	const rest, commits = time.Minute, 50
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks, ended := make(chan struct{}, 2*commits), make(chan struct{})
	go func() {
		defer close(ended)
		s.Follow(ctx, rest, time.Hour, func() { looks <- struct{}{} })
	}()
	<-looks
	for range commits {
		kindstest.Update(t, s, func(context.Context, *core.Tx) error { return nil })
	}
	cancel()
	<-ended
	if n := len(looks); n != 0 {
		t.Errorf("%d looks within %s of the first", n, rest)
	}
}

func TestAFollowerMissesNoCommit(t *testing.T) {
	s := kindstest.Open(t, filepath.Join(t.TempDir(), "db"))
	ctx, cancel := context.WithCancel(t.Context())
	ended, seen := make(chan struct{}), make(chan int, 1000)
	go func() {
		defer close(ended)
		s.Follow(ctx, time.Millisecond, time.Hour, func() {
			_ = s.View(ctx, func(tx *core.Tx) error {
				machines, err := machine.List(ctx, tx)
				if err == nil {
					seen <- len(machines)
				}
				return err
			})
		})
	}()
	kindstest.AddMachines(t, s, 7)
	for n := range seen {
		if n == 7 {
			break
		}
	}
	cancel()
	<-ended
}
