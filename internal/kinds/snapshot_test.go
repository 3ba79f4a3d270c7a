package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"muster/internal/core"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/kinds/snapshot"
	"muster/internal/spec"
)

// save asks for a snapshot and returns its ID.
func (s *fixture) save(clusterID, name string) (id string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		c, err := cluster.Get(ctx, tx, clusterID)
		if err != nil {
			return err
		}
		id = core.NewID("s")
		return snapshot.Add(ctx, tx, snapshot.Snapshot{ID: id, Project: c.Project, Name: name, ClusterID: c.ID, Cluster: c.Name,
			Spec: c.Spec})
	})
	return id
}

// createFrom asks for a cluster that begins with what a snapshot holds.
func (s *fixture) createFrom(name, snapshotID string) (id string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		from, err := snapshot.Get(ctx, tx, snapshotID)
		if err != nil {
			return err
		}
		plan, err := s.admission.CreateFrom(ctx, tx, spec.Cluster{Name: name, Nodes: 1}, &from)
		if err != nil {
			return err
		}
		c, err := s.admission.CarryOut(ctx, tx, plan, "admin", 0)
		id = c.ID
		return err
	})
	return id
}

func (s *fixture) untilSnapshot(id string, phase core.Phase) snapshot.Snapshot {
	s.Helper()
	var now snapshot.Snapshot
	if !s.eventually(func() bool {
		s.view(func(ctx context.Context, tx *core.Tx) (err error) {
			now, err = snapshot.Get(ctx, tx, id)
			return err
		})
		return now.Phase == phase
	}) {
		s.Fatalf("snapshot %s is not %s: %s %s", now.Name, phase, now.Phase, now.Reason)
	}
	return now
}

func TestACopyOfAClusterBeginsWithWhatWasSaved(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 6)
		stop := s.run(1)
		s.untilFree(6)
		id := s.create("hello", 1)
		s.untilReady(id, 1)
		s.substrate.Write(id, "first")
		snapshotID := s.save(id, "before")
		if saved := s.untilSnapshot(snapshotID, snapshot.Saved); saved.Bytes != int64(len("first")) ||
			!strings.Contains(saved.Reason, "5 B") {
			t.Errorf("%d bytes: %s", saved.Bytes, saved.Reason)
		}
		s.substrate.Write(id, "second")
		s.remove(id)
		s.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })

		one := s.createFrom("one", snapshotID)
		stop()
		s.run(1)
		s.untilReady(one, 1)
		s.pause(one)
		s.untilPaused(one)
		two := s.createFrom("two", snapshotID)
		s.untilReady(two, 1)
		for _, id := range []string{one, two} {
			if got := s.substrate.Read(id); got != "first" {
				t.Errorf("a copy begins with %q", got)
			}
		}
		s.update(func(ctx context.Context, tx *core.Tx) error { return snapshot.WantDeleted(ctx, tx, snapshotID) })
		s.untilSnapshot(snapshotID, core.Deleted)
		if left, _ := s.substrate.Snapshots(t.Context()); len(left) > 0 {
			t.Error("left: ", left)
		}
		if got := s.substrate.Read(two); got != "first" {
			t.Errorf("with its snapshot a copy lost %q", got)
		}
		s.remove(one)
		s.remove(two)
		s.until(one, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
		s.untilClean(two)
	})
}

func TestASnapshotThatDoesNotFitOrComesTooLateFailsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 3)
	s.run(1)
	s.untilFree(3)
	id := s.create("hello", 1)
	s.untilReady(id, 1)
	s.substrate.Write(id, "four")
	s.substrate.Fill(3)
	if failed := s.untilSnapshot(s.save(id, "large"), core.Failed); !strings.Contains(failed.Reason,
		"takes 4 bytes, and 3 are free") {
		t.Error(failed.Reason)
	}
	s.substrate.Fill(-1)
	var taken error
	_ = s.db.Update(t.Context(), func(tx *core.Tx) error {
		c, err := cluster.Get(t.Context(), tx, id)
		if err == nil {
			taken = snapshot.Add(t.Context(), tx, snapshot.Snapshot{ID: "s2", Project: c.Project, Name: "large", ClusterID: c.ID,
				Cluster: c.Name})
		}
		return taken
	})
	if !errors.Is(taken, core.ErrExists) {
		t.Error(taken)
	}
	s.remove(id)
	late := s.save(id, "late")
	if failed := s.untilSnapshot(late, core.Failed); !strings.Contains(failed.Reason, "being deleted") {
		t.Error(failed.Reason)
	}
	s.untilClean(id)
	if left, _ := s.substrate.Snapshots(t.Context()); len(left) > 0 {
		t.Error("left: ", left)
	}
}

func TestWhatNobodyWantsOfSnapshotsIsSweptAway(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 1)
	if _, err := s.substrate.Save(t.Context(), "c1", "forgotten", func(int64) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.run(1)
	if !s.eventually(func() bool { left, _ := s.substrate.Snapshots(t.Context()); return len(left) == 0 }) {
		t.Error("it is still there")
	}
}

// slowCopies are snapshots whose files take until they are let go, and count who copies.
type slowCopies struct {
	*fake.Substrate
	mu        sync.Mutex
	now, most int
	let       chan struct{}
}

func (c *slowCopies) Restore(ctx context.Context, id, cluster string, home int64, progress func(int64) error) error {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}()
	select {
	case <-c.let:
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.Substrate.Restore(ctx, id, cluster, home, progress)
}

// TestCopiesLeaveTheEngineToOthers: each copy holds a worker of the engine, which has 128.
func TestCopiesLeaveTheEngineToOthers(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 14)
		slow := &slowCopies{Substrate: s.substrate, let: make(chan struct{})}
		s.deps.Snapshots = slow
		s.run(1)
		s.untilFree(14)
		first := s.create("first", 1)
		s.untilReady(first, 1)
		shot := s.save(first, "shot")
		s.untilSnapshot(shot, snapshot.Saved)
		var copies []string
		for i := range 5 {
			copies = append(copies, s.createFrom(fmt.Sprint("copy", i), shot))
		}
		other := s.create("other", 1)
		s.untilReady(other, 1)
		close(slow.let)
		for _, id := range copies {
			s.untilReady(id, 1)
		}
		if slow.most != 2 {
			t.Errorf("%d copies of one project went on at the same time", slow.most)
		}
	})
}
