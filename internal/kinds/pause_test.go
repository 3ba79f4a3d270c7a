package kinds_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
	"muster/internal/spec"
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
	var mute atomic.Bool // the head, for which a pause waits then
	s.mute = func(n node.Node) bool { return mute.Load() && n.Role == protocol.Head }
	s.run(1)
	s.untilFree(6)
	id := s.create("hello", 3)
	s.pause(id) // before it was ever ready
	s.untilPaused(id)
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 3)
	mute.Store(true)
	s.pause(id)
	s.until(id, "pausing", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == cluster.Pausing })
	s.update(func(ctx context.Context, tx *core.Tx) error { return cluster.WantPresent(ctx, tx, id) })
	mute.Store(false)
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
	testall.Only(t)
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

// slow is an inspector that says nothing while it is held.
type slow struct {
	inspector
	held atomic.Bool
}

func (i *slow) Inspect(ctx context.Context, asked substrate.Inspection) (substrate.Inspected, error) {
	if i.held.Load() {
		return substrate.Inspected{}, nil
	}
	return i.inspector.Inspect(ctx, asked)
}

// inspectedBy has the machines inspected by another inspector; before run.
func (s *fixture) inspectedBy(i substrate.Inspector) {
	provider := s.deps.Providers["local"]
	provider.Inspector = i
	s.deps.Providers = map[string]life.Provider{"local": provider}
}

// pausedBeside is a paused cluster of 2 nodes, whose 3 machines are being prepared.
func (s *fixture) pausedBeside(i *slow) (id string) {
	s.Helper()
	s.inspectedBy(i)
	s.run(1)
	s.untilFree(3)
	id = s.create("hello", 2)
	s.untilReady(id, 2)
	s.substrate.Write(id, "a file in /home")
	s.pause(id)
	s.untilPaused(id)
	s.untilFree(3)
	i.held.Store(true)
	s.update(func(ctx context.Context, tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		for _, m := range machines {
			if err == nil {
				err = machine.AskInspection(ctx, tx, m.ID)
			}
		}
		return err
	})
	s.untilFree(0)
	return id
}

func TestAResumeWaitsForMachinesThatAreBeingPrepared(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 3)
		i := &slow{}
		id := s.pausedBeside(i)
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.until(id, "waiting for its machines", func(c cluster.Cluster, nodes []node.Node) bool {
			return c.Phase == cluster.Resuming && len(nodes) == 0 && strings.HasSuffix(c.Reason, "; waits for machines") &&
				strings.Contains(c.Short, "0 free, 3 being prepared")
		})
		if told := s.told(id, "cluster.requested"); !slices.Contains(told, "resume, waits for 3 machines to be prepared, by admin") {
			t.Errorf("%q", told)
		}
		if _, err := s.ask("other", 1, spec.Lease{}); err == nil {
			t.Error("another cluster got the machines that were waited for")
		}
		i.held.Store(false)
		s.untilReady(id, 2)
		if got := s.substrate.Read(id); got != "a file in /home" {
			t.Errorf("%q", got)
		}
	})
}

func TestAResumeForWhichNoMachineComesIsCalledOff(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 3)
		s.limit(func(l *substrate.Deadlines) { l.Inspection = 100 * time.Hour })
		id := s.pausedBeside(&slow{})
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.until(id, "waiting", func(c cluster.Cluster, _ []node.Node) bool {
			return c.Phase == cluster.Resuming && c.Short != ""
		})
		s.clock.Advance(2 * time.Hour)
		if c := s.untilPaused(id); c.Desired != cluster.ToPause || c.Short != "" ||
			!strings.HasPrefix(c.Reason, "its resume is called off after 1h: head.class: class service: 1 more asked, 0 free") {
			t.Errorf("it is to be %s: %s (lacks %q)", c.Desired, c.Reason, c.Short)
		}
	})
}

func TestAResumeRightAfterAPauseBringsTheClusterBack(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 3)
		s.run(1)
		s.untilFree(3)
		id := s.create("hello", 2)
		s.untilReady(id, 2)
		// Of the cluster, and of its first node.
		for _, phase := range []core.Phase{cluster.Pausing, core.Ready, node.Draining, core.Releasing, "gone"} {
			s.pause(id)
			s.until(id, string(phase), func(c cluster.Cluster, nodes []node.Node) bool {
				if phase == cluster.Pausing {
					return c.Phase == phase || c.Phase == cluster.Paused
				}
				at := slices.IndexFunc(nodes, func(n node.Node) bool { return n.Name == "n1" })
				if at < 0 || phase == "gone" { // the others may be over before they are seen
					return at < 0
				}
				return nodes[at].Phase == phase || phase != core.Ready && nodes[at].Desired == node.Absent
			})
			if err := s.resume(id); err != nil {
				t.Fatal(err)
			}
			s.untilReady(id, 2)
			slots, _ := s.places(id)
			if names := slices.Sorted(maps.Keys(slots)); !slices.Equal(names, []string{"head", "n1", "n2"}) {
				t.Errorf("resumed while its first node was %s, it has %q", phase, names)
			}
		}
		for _, text := range s.told(id, "node.phase") {
			if strings.Contains(text, "no longer wanted") {
				t.Errorf("its head went without a word to the scheduler: %s", text)
			}
		}
	})
}
