package store_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestOneLookSaysWhatIsDueAndHowLongTheRestMayWait(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		of := []store.Kind{store.ClusterKind, store.NodeKind, store.MachineKind}
		look := func() (due []store.Kind, next time.Duration) {
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
		addMachines(t, s, 2)
		if due, _ := look(); !slices.Equal(due, []store.Kind{store.MachineKind}) {
			t.Errorf("new machines: %v is due", due)
		}
		claims, err := s.Claim(t.Context(), store.MachineKind, "a", time.Hour, 10)
		if err != nil || len(claims) != 2 {
			t.Fatal(claims, err)
		}
		if due, next := look(); len(due) != 0 || next >= 0 {
			t.Errorf("all are held: %v is due, the next one in %v", due, next)
		}
		for i, settlement := range []store.Settlement{{Phase: store.Enrolled, After: time.Hour}, {Phase: store.Enrolled, Never: true}} {
			update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.Settle(ctx, claims[i], settlement) })
		}
		if due, next := look(); len(due) != 0 || next <= 59*time.Minute || next > time.Hour {
			t.Errorf("one waits an hour and one for ever: %v is due, the next one in %v", due, next)
		}
		update(t, s, func(_ context.Context, tx *store.Tx) error { tx.Wake(store.MachineKind, claims[1].ID); return nil })
		if due, _ := look(); !slices.Equal(due, []store.Kind{store.MachineKind}) {
			t.Errorf("one was woken: %v is due", due)
		}
	})
}

func TestWhatIsDueIsFoundByItsIndex(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		for _, kind := range []store.Kind{store.ClusterKind, store.NodeKind, store.MachineKind} {
			usesIndex(t, s, string(kind)+"_wake", store.NextWake(kind))
		}
	})
}

// TestWhatIsAskedOftenIsFoundByIndex, however large the site is.
func TestWhatIsAskedOftenIsFoundByIndex(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 3)
		addCluster(t, s, "c1", "alpha")
		usesIndex(t, s, "cluster_by_name", store.ClustersNamedQuery, "alpha")
		usesIndex(t, s, "node_name", store.MachinesUnderQuery, "c1")
	})
}

func TestMachinesUnderAClusterAreThoseOfItsNodes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 20)
		addCluster(t, s, "c1", "alpha")
		addCluster(t, s, "c2", "beta")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(addNode(ctx, tx, "n1", "c1", "head", 1, "m1"), addNode(ctx, tx, "n2", "c1", "n1", 2, "m2"), addNode(ctx, tx, "n3", "c2", "head", 1, "m3"))
		})
		since := storetest.Costs(t, s)
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			under, err := tx.MachinesUnder(ctx, "c1")
			if err == nil && (len(under) != 2 || under["m1"].Name != "local-1" || under["m2"].Name != "local-2") {
				t.Errorf("%v", slices.Sorted(maps.Keys(under)))
			}
			return err
		})
		if cost := since(); cost.Rows != 2 {
			t.Errorf("%d rows were read", cost.Rows)
		}
	})
}

// usesIndex fails the test unless the database goes about a query by an index.
func usesIndex(t *testing.T, s *store.Store, index, query string, args ...any) {
	t.Helper()
	view(t, s, func(ctx context.Context, tx *store.Tx) error {
		plan, err := tx.Explain(ctx, query, args...)
		if err == nil && !strings.Contains(plan, index) {
			t.Errorf("%s is not used:\n%s", index, plan)
		}
		return err
	})
}

// TestManyCommitsAreOneLook: what a follower costs does not grow with what others write.
func TestManyCommitsAreOneLook(t *testing.T) {
	s := storetest.Open(t, filepath.Join(t.TempDir(), "db"))
	const rest, commits = 10 * time.Second, 50
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks, ended := make(chan struct{}, 2*commits), make(chan struct{})
	go func() {
		defer close(ended)
		s.Follow(ctx, rest, time.Hour, func() { looks <- struct{}{} })
	}()
	<-looks
	for range commits {
		update(t, s, func(context.Context, *store.Tx) error { return nil })
	}
	cancel()
	<-ended
	if n := len(looks); n != 0 {
		t.Errorf("%d looks within %s of the first", n, rest)
	}
}

func TestAFollowerMissesNoCommit(t *testing.T) {
	s := storetest.Open(t, filepath.Join(t.TempDir(), "db"))
	ctx, cancel := context.WithCancel(t.Context())
	ended, seen := make(chan struct{}), make(chan int, 1000)
	go func() {
		defer close(ended)
		s.Follow(ctx, time.Millisecond, time.Hour, func() {
			_ = s.View(ctx, func(tx *store.Tx) error {
				machines, err := tx.Machines(ctx)
				if err == nil {
					seen <- len(machines)
				}
				return err
			})
		})
	}()
	addMachines(t, s, 7)
	for n := range seen {
		if n == 7 {
			break
		}
	}
	cancel()
	<-ended
}
