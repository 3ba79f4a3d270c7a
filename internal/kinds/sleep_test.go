package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/meter"
	"muster/internal/kinds/node"
	"muster/internal/kit/testall"
	"muster/internal/price"
)

// sleepers put guests to sleep in the fake world.
type sleepers struct {
	*fake.Substrate
	mu     sync.Mutex
	fails  map[string]error // by node ID: why it cannot sleep
	lost   bool             // no node wakes any more
	stands chan struct{}    // closed when a node that falls asleep stands still until its controller ends; nil: none does
	slept  map[string]int   // by node ID: how often it was written
}

func (s *sleepers) Sleep(ctx context.Context, r substrate.Ref, host string) (int64, error) {
	s.mu.Lock()
	err, stands := s.fails[r.Node], s.stands
	s.stands = nil
	s.slept[r.Node]++
	s.mu.Unlock()
	if stands != nil {
		close(stands)
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, err
	}
	return s.Substrate.Sleep(ctx, r, host)
}

func (s *sleepers) Wake(ctx context.Context, n substrate.Node, host string) error {
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	if lost {
		return fmt.Errorf("%w: its memory cannot be read", substrate.ErrEnded)
	}
	return s.Substrate.Wake(ctx, n, host)
}

// newSleepingFixture has a head's place, two hosts, and guests that sleep.
func newSleepingFixture(t *testing.T, url string) (*fixture, *sleepers) {
	s, g := newGuestFixture(t, url, 1, 2)
	sleepers := &sleepers{Substrate: g.Substrate, fails: map[string]error{}, slept: map[string]int{}}
	provider := s.deps.Providers["vm"]
	provider.Sleeper = sleepers
	s.deps.Providers["vm"] = provider
	return s, sleepers
}

func (s *fixture) pauseKeeping(id string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error { return cluster.PauseKeepingMemory(ctx, tx, id) })
}

// untilAsleep waits until a cluster is paused and so many of its nodes sleep, and none does anything else.
func (s *fixture) untilAsleep(id string, sleeping int) (nodes []node.Node) {
	s.Helper()
	s.until(id, "asleep", func(c cluster.Cluster, all []node.Node) bool {
		nodes = all
		return c.Phase == cluster.Paused && len(all) == sleeping && !slices.ContainsFunc(all, func(n node.Node) bool {
			return !n.Asleep()
		})
	})
	return nodes
}

func TestAClusterSleepsAndGoesOnWhereItWas(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s, _ := newSleepingFixture(t, url)
		s.run(2)
		id, before := s.onHV1()
		s.pauseKeeping(id)
		nodes := s.untilAsleep(id, 2)
		for i, n := range nodes {
			if n.ID != before[i].ID || n.Boot != before[i].Boot || n.Seen.Boot != 0 {
				t.Errorf("node %s sleeps as %+v", n.Name, n)
			}
			if g := s.machine(n.Machine); g.Allocation != nil || g.Host != "hv1" {
				t.Errorf("guest %s holds %+v of %s while it sleeps", g.Name, g.Allocation, g.Host)
			}
		}
		s.view(func(ctx context.Context, tx *core.Tx) error {
			use, err := s.admission.InUse(ctx, tx, "default")
			if use.Nodes != 0 || use.Cores != 0 {
				t.Errorf("asleep it holds %+v of its project's quota", use)
			}
			rows, _ := meter.Rows(ctx, tx, meter.Of{Cluster: id, Open: true})
			for _, r := range rows {
				if r.Kind == price.Node && (r.State != price.Stored || r.Costs()) {
					t.Errorf("the meter of %s says %s", r.Node, r.State)
				}
			}
			return err
		})
		other := s.createGuests("other", 3) // all of hv1, or of hv2
		s.untilReady(other, 3)
		s.remove(other)
		s.until(other, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })

		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.untilReady(id, 2)
		s.until(id, "the same nodes", func(_ cluster.Cluster, all []node.Node) bool {
			for i, n := range all[1:] {
				if n.ID != before[i].ID || n.Boot != before[i].Boot || n.Sleeps || n.HostID != "hv1" {
					return false
				}
			}
			return true
		})
		for _, said := range []string{"suspended: its memory takes", "and the memory of 2 nodes", "resumes on hv1",
			"resumed, with everything that ran on it"} {
			if !s.hasSaid(said) {
				t.Errorf("nobody said %q", said)
			}
		}
		s.pauseKeeping(id) // and again
		s.untilAsleep(id, 2)
		s.remove(id)
		s.awaitMachine("hv1-g1", "gone", absent)
		s.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
		if left, _ := s.substrate.List(t.Context()); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		kindstest.Metered(t, s.db)
	})
}

func TestANodeWakesOnItsOwnHostOrNotAtAll(t *testing.T) {
	t.Parallel()
	s, _ := newSleepingFixture(t, t.TempDir()+"/db")
	s.run(1)
	id, _ := s.onHV1()
	s.pauseKeeping(id)
	s.untilAsleep(id, 2)
	s.drain("hv1")
	var refusal *admission.Refusal
	err := s.resume(id)
	if !errors.As(err, &refusal) || refusal.Kind != admission.NoCapacity ||
		!strings.Contains(refusal.Error(), "node n1 is suspended on hv1, which has no room for it now: in maintenance") {
		t.Fatalf("resumed where there is no room: %v", err)
	}
	s.untilAsleep(id, 2)
	// gives its memory up
	s.update(func(ctx context.Context, tx *core.Tx) error { return cluster.PausePatiently(ctx, tx, id, 0) })
	s.untilPaused(id)
	s.awaitMachine("hv1", "out of service", func(m machine.Machine) bool { return m.Phase == machine.Maintenance })
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 2)
}

func TestAPauseRightAfterAResumeLetsNodesSleepOn(t *testing.T) {
	t.Parallel()
	s, _ := newSleepingFixture(t, t.TempDir()+"/db")
	stop := s.run(1)
	id, before := s.onHV1()
	s.pauseKeeping(id)
	s.untilAsleep(id, 2)
	stop() // no controller sees what is asked for in between
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.pauseKeeping(id)
	s.run(1)
	for i, n := range s.untilAsleep(id, 2) {
		if g := s.machine(n.Machine); n.ID != before[i].ID || g.Allocation != nil {
			t.Errorf("node %s sleeps on, and its guest holds %+v", n.Name, g.Allocation)
		}
	}
	s.untilFree(1)
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 2)
}

func TestAClusterThatSleepsTakesChangesForLater(t *testing.T) {
	t.Parallel()
	s, _ := newSleepingFixture(t, t.TempDir()+"/db")
	s.run(1)
	id, before := s.onHV1()
	s.pauseKeeping(id)
	s.untilAsleep(id, 2)
	s.scale(id, 1)
	s.untilAsleep(id, 2)
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 1)
	s.until(id, "with the first of its nodes", func(_ cluster.Cluster, all []node.Node) bool {
		return len(all) == 2 && all[1].ID == before[0].ID
	})
}

func TestWhatCannotSleepIsPausedAsEver(t *testing.T) {
	t.Parallel()
	s, _ := newSleepingFixture(t, t.TempDir()+"/db")
	provider := s.deps.Providers["vm"]
	provider.Sleeper = nil
	s.deps.Providers["vm"] = provider
	s.run(1)
	id, _ := s.onHV1()
	s.pauseKeeping(id)
	s.untilPaused(id)
	if !s.hasSaid("cannot be kept, and its jobs are requeued: node n1 is on hv1, whose guests cannot be suspended") {
		t.Error("nobody said why")
	}
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 2)
}

func TestNobodySleepsWhileANodeComesOrGoes(t *testing.T) {
	t.Parallel()
	s, _ := newSleepingFixture(t, t.TempDir()+"/db")
	var ended atomic.Bool
	s.jobs = func(node.Node) int {
		if ended.Load() {
			return 0
		}
		return 1
	}
	s.run(1)
	id, nodes := s.onHV1()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		if err := node.WantAbsent(ctx, tx, nodes[1].ID, 0); err != nil {
			return err
		}
		return cluster.PauseKeepingMemory(ctx, tx, id)
	})
	s.until(id, "told to wait", func(c cluster.Cluster, all []node.Node) bool {
		return strings.HasPrefix(c.Reason, "its nodes cannot be suspended yet: node n2 is ") && len(all) == 3
	})
	ended.Store(true)
	if left := s.untilAsleep(id, 1); left[0].ID != nodes[0].ID {
		t.Errorf("%s sleeps", left[0].Name)
	}
}

// limitGuests changes the limits of guests; before run.
func (s *fixture) limitGuests(change func(*substrate.Deadlines)) {
	provider := s.deps.Providers["vm"]
	change(&provider.Limits)
	s.deps.Providers["vm"] = provider
}

func TestANodeWithoutRoomForItsMemoryGoesAndTheOthersSleep(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s, sleepers := newSleepingFixture(t, t.TempDir()+"/db")
	s.limitGuests(func(l *substrate.Deadlines) { l.KillGrace = 100 * time.Millisecond })
	s.run(1)
	id, before := s.onHV1()
	sleepers.mu.Lock()
	sleepers.fails[before[0].ID] = fmt.Errorf("%w for its memory: 3072 MiB are needed and 3071 MiB are free", substrate.ErrNoRoom)
	sleepers.mu.Unlock()
	s.pauseKeeping(id)
	if left := s.untilAsleep(id, 1); left[0].ID != before[1].ID {
		t.Errorf("%s sleeps", left[0].Name)
	}
	if !s.hasSaid("cannot be suspended, and its jobs are requeued: no room for its memory: 3072 MiB are needed") {
		t.Error("nobody said why")
	}
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 2)
	s.until(id, "one of them new", func(_ cluster.Cluster, all []node.Node) bool {
		return all[1].ID != before[0].ID && all[2].ID == before[1].ID
	})
}

func TestAnotherControllerGoesOnWithASleepThatACrashCutOff(t *testing.T) {
	t.Parallel()
	s, sleepers := newSleepingFixture(t, t.TempDir()+"/db")
	stop := s.run(1)
	id, before := s.onHV1()
	stands := make(chan struct{})
	sleepers.mu.Lock()
	sleepers.stands = stands
	sleepers.mu.Unlock()
	s.pauseKeeping(id)
	<-stands
	stop()
	s.run(1)
	for i, n := range s.untilAsleep(id, 2) {
		if n.ID != before[i].ID {
			t.Errorf("node %s is another one", n.Name)
		}
	}
}

func TestANodeWhoseMemoryIsLostIsReplaced(t *testing.T) {
	t.Parallel()
	s, sleepers := newSleepingFixture(t, t.TempDir()+"/db")
	s.run(1)
	id, before := s.onHV1()
	s.pauseKeeping(id)
	s.untilAsleep(id, 2)
	sleepers.mu.Lock()
	sleepers.lost = true
	sleepers.mu.Unlock()
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.until(id, "ready with others", func(c cluster.Cluster, all []node.Node) bool {
		return c.Phase == core.Ready && len(all) == 3 && all[1].ID != before[0].ID && all[2].ID != before[1].ID
	})
	if !s.hasSaid("it cannot be resumed on hv1: it has ended on its way: its memory cannot be read") {
		t.Error("nobody said why")
	}
}
