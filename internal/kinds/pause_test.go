package kinds_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/noded/protocol"
)

// playPause is the head's part in a pause, and before a new boot, as protocol describes it.
func (s *fixture) playPause(ctx context.Context, tx *core.Tx, n node.Node, runs bool) (said bool, err error) {
	c, err := cluster.Get(ctx, tx, n.Cluster)
	renewed := n.Renew && n.Phase == node.Draining
	pausing := c.Phase == cluster.Pausing && (n.Phase == core.Ready || n.Phase == node.Draining)
	if err != nil || !runs || !renewed && !pausing {
		return false, err
	}
	if said, err = runHook(ctx, tx, c.ID); err != nil {
		return false, err
	}
	checks := []protocol.Check{{Name: "munge", OK: true}}
	if n.Desired == node.Absent || renewed {
		checks = append(checks, protocol.Check{Name: string(protocol.PauseHalt), OK: true, Text: "done"})
	}
	if n.Seen.Revision == c.Revision && slices.Equal(n.Seen.Checks, checks) {
		return said, nil
	}
	tx.Wake(node.Kind, n.ID)
	tx.Wake(cluster.Kind, c.ID)
	return true, node.SaveReport(ctx, tx, n.ID, protocol.Report{Boot: n.Boot, Revision: c.Revision, Checks: checks})
}

// runHook is what a head does of its cluster's system tasks.
func runHook(ctx context.Context, tx *core.Tx, cluster string) (ran bool, err error) {
	tasks, err := task.OnHead(ctx, tx, cluster)
	for _, t := range tasks {
		if err == nil && t.System() && t.Said.Stage == "" {
			zero := 0
			tx.Wake("cluster", cluster)
			ran = true
			err = task.Save(ctx, tx, cluster, t.ID, task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK, Exit: &zero})
		}
	}
	return ran, err
}

func (s *fixture) pause(id string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error { return cluster.WantPaused(ctx, tx, id) })
}

func (s *fixture) resume(id string) (err error) {
	return s.db.Update(s.Context(), func(tx *core.Tx) error {
		if err := cluster.Lock(s.Context(), tx, id); err != nil {
			return err
		}
		c, err := cluster.Get(s.Context(), tx, id)
		if err != nil {
			return err
		}
		plan, err := s.admission.Resume(s.Context(), tx, c)
		if err == nil && c.Desired == cluster.ToPause {
			_, err = s.admission.CarryOutResume(s.Context(), tx, plan, "admin")
		}
		return err
	})
}

func (s *fixture) untilPaused(id string) cluster.Cluster {
	s.Helper()
	var paused cluster.Cluster
	s.until(id, "paused", func(c cluster.Cluster, nodes []node.Node) bool {
		paused = c
		return c.Phase == cluster.Paused && len(nodes) == 0
	})
	return paused
}

// places are the seats of a cluster's nodes, and their machines.
func (s *fixture) places(id string) (slots map[string]int, machines []string) {
	s.Helper()
	slots = map[string]int{}
	s.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, id)
		for _, n := range nodes {
			slots[n.Name] = n.Slot
			machines = append(machines, n.Machine)
		}
		return err
	})
	return slots, machines
}

func TestAPausedClusterGivesItsMachinesAwayAndComesBackOnOthers(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 6)
		s.run(1)
		s.untilFree(6)
		id := s.create("hello", 2)
		s.untilReady(id, 2)
		s.substrate.Write(id, "a file in /home")
		slots, first := s.places(id)

		s.pause(id)
		paused := s.untilPaused(id)
		if paused.Held != int64(len("a file in /home")) || !strings.Contains(paused.Reason, "15 B") {
			t.Errorf("it holds %d bytes: %s", paused.Held, paused.Reason)
		}
		s.untilFree(6)
		other := s.create("other", 3)
		s.untilReady(other, 3)
		var refusal *admission.Refusal
		if err := s.resume(id); !errors.As(err, &refusal) || refusal.Kind != admission.NoCapacity {
			t.Fatalf("resumed where there is no room: %v", err)
		}
		if c := s.untilPaused(id); c.Desired != cluster.ToPause {
			t.Errorf("a refused resume left it %s", c.Desired)
		}
		s.remove(other)
		s.until(other, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
		taken := s.create("taken", 1) // the machines that it had before
		s.untilReady(taken, 1)

		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.untilReady(id, 2)
		again, second := s.places(id)
		for name, slot := range slots {
			if again[name] != slot {
				t.Errorf("%s had seat %d and has %d", name, slot, again[name])
			}
		}
		if slices.Equal(first, second) {
			t.Errorf("it came back on the same machines, %v: this test shows nothing", second)
		}
		if size, _ := s.substrate.Size(t.Context(), id); size != 15 {
			t.Error("its /home is lost")
		}
		s.remove(id)
		s.remove(taken)
		s.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
		s.untilClean(taken)
	})
}

func TestAPausedClusterTakesChangesForLaterAndCanBeDeleted(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 6)
	s.run(1)
	s.untilFree(6)
	id := s.create("hello", 3)
	s.untilReady(id, 3)
	s.pause(id)
	s.untilPaused(id)
	s.scale(id, 1)
	if c := s.untilPaused(id); c.Reached == c.Generation {
		t.Error("the change has not been written down")
	}
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 1)
	s.pause(id)
	s.untilPaused(id)
	s.remove(id)
	s.untilClean(id)
}

func TestAPauseThatIsCalledOffOrOvertakenByADelete(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 6)
	s.run(1)
	s.untilFree(6)
	id := s.create("hello", 3)
	s.pause(id) // before it was ever ready
	s.untilPaused(id)
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 3)
	s.pause(id)
	s.until(id, "pausing", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == cluster.Pausing })
	s.update(func(ctx context.Context, tx *core.Tx) error { return cluster.WantPresent(ctx, tx, id) })
	s.untilReady(id, 3)
	s.pause(id)
	s.remove(id)
	s.untilClean(id)
}

func TestAPauseRightAfterAResumeGivesTheMachinesBack(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 4)
		stop := s.run(1)
		s.untilFree(4)
		id := s.create("hello", 2)
		s.untilReady(id, 2)
		s.pause(id)
		s.untilPaused(id)
		stop() // no controller sees what is asked for in between
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.pause(id)
		s.run(1)
		s.untilPaused(id)
		s.untilFree(4)
		s.remove(id)
		s.untilClean(id)
	})
}

func TestAPauseWhoseHeadIsDeadDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 4)
	s.limit(func(l *substrate.Deadlines) { l.Halt, l.KillGrace = 500*time.Millisecond, 500*time.Millisecond })
	s.run(1)
	s.untilFree(4)
	id := s.create("hello", 2)
	s.untilReady(id, 2)
	var head node.Node
	s.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, id)
		head = nodes[0]
		return err
	})
	s.update(func(ctx context.Context, tx *core.Tx) error {
		return cluster.PausePatiently(ctx, tx, id, cluster.UntilJobsEnd)
	})
	s.substrate.DieWithMachine(head.Machine)
	s.update(func(_ context.Context, tx *core.Tx) error { tx.Wake(node.Kind, head.ID); return nil })
	s.untilPaused(id)
}

func TestControllersThatComeAndGoFinishAPauseAndAResume(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 5)
		engines := 1
		if s.db.Shared() {
			engines = 3
		}
		stop := s.run(engines)
		again := func() { stop(); stop = s.run(engines) }
		s.untilFree(5)
		id := s.create("hello", 4)
		s.untilReady(id, 4)
		for _, wait := range []time.Duration{0, 20 * time.Millisecond, 80 * time.Millisecond} {
			s.pause(id)
			time.Sleep(wait) // anywhere in the middle
			again()
			time.Sleep(wait)
			again()
			s.untilPaused(id)
			s.untilFree(5) // else a resume is refused, rightly: a machine is being prepared
			if err := s.resume(id); err != nil {
				t.Fatal(err)
			}
			time.Sleep(wait)
			again()
			s.untilReady(id, 4)
		}
		s.remove(id)
		s.untilClean(id)
	})
}
