package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/testall"
)

// remoteSleepers put guests of machines of the rack to sleep and wake them, as their agents do: while the caller looks away.
type remoteSleepers struct {
	*rack
	mu    sync.Mutex
	asked map[string]int // calls since it slept or woke last, by node
	stuck bool           // nothing that is begun comes to an end
}

func (a *remoteSleepers) CanSuspend(string) bool { return true }

// later counts a call. The second one does what is asked, and its report is lost; the third one hears of it.
func (a *remoteSleepers) later(node string, do func() error) (err error) {
	a.mu.Lock()
	a.asked[node]++
	asked, stuck := a.asked[node], a.stuck
	a.mu.Unlock()
	if asked >= 2 && !stuck {
		err = do()
	}
	if asked < 3 || stuck {
		a.rack.mu.Lock()
		a.rack.asks = append(a.rack.asks, node)
		a.rack.mu.Unlock()
		return fmt.Errorf("%w: its hypervisor is at it", substrate.ErrUnderway)
	}
	a.mu.Lock()
	a.asked[node] = 0
	a.mu.Unlock()
	return err
}

func (a *remoteSleepers) Sleep(ctx context.Context, r substrate.Ref, host string) (bytes int64, err error) {
	err = a.later(r.Node, func() error {
		bytes, err = a.rack.guestProvider.Sleep(ctx, r, host)
		return err
	})
	return bytes, err
}

func (a *remoteSleepers) Wake(ctx context.Context, n substrate.Node, host string) error {
	return a.later(n.Node, func() error { return a.rack.guestProvider.Wake(ctx, n, host) })
}

// newRemoteSleepingFixture has a place for a head, and two machines with room for three guests each.
func newRemoteSleepingFixture(t *testing.T, url string, change func(*substrate.Deadlines)) (*fixture, *remoteSleepers) {
	s, r := newRackFixture(t, url, 1, 2, change)
	a := &remoteSleepers{rack: r, asked: map[string]int{}}
	provider := s.deps.Providers["vm"]
	provider.Sleeper = a
	s.deps.Providers["vm"] = provider
	return s, a
}

// spread has a cluster of four guests, on both machines.
func (s *fixture) spread() (id string, before []node.Node) {
	s.Helper()
	s.settled(1, "r1", "r2")
	id = s.createGuests("parts", 4)
	s.untilReady(id, 4)
	s.until(id, "on both machines", func(_ cluster.Cluster, all []node.Node) bool {
		before = all[1:]
		return before[0].HostID == "r1" && before[3].HostID == "r2"
	})
	return id, before
}

// untilAwake waits until a cluster runs with the same nodes as before.
func (s *fixture) untilAwake(id string, before []node.Node) {
	s.Helper()
	s.untilReady(id, len(before))
	s.until(id, "the same nodes", func(_ cluster.Cluster, all []node.Node) bool {
		for i, n := range all[1:] {
			if n.ID != before[i].ID || n.Boot != before[i].Boot || n.Sleeps || n.HostID != before[i].HostID {
				return false
			}
		}
		return true
	})
}

func TestAClusterOnHypervisorsOfTheRackSleepsAndGoesOnWhereItWas(t *testing.T) {
	testall.Only(t)
	kindstest.Either(t, func(t *testing.T, url string) {
		s, _ := newRemoteSleepingFixture(t, url, nil)
		s.run(2)
		id, before := s.spread()
		s.pauseKeeping(id)
		for i, n := range s.untilAsleep(id, 4) {
			if g := s.machine(n.Machine); n.ID != before[i].ID || g.Allocation != nil || g.HostName != n.HostID {
				t.Errorf("guest %s of %s holds %+v while it sleeps", g.Name, g.HostName, g.Allocation)
			}
		}
		other := s.createGuests("other", 6) // all of both
		s.untilReady(other, 6)
		s.remove(other)
		s.until(other, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
		time.Sleep(600 * time.Millisecond) // three times as long as an idle hypervisor stays one
		for _, name := range []string{"r1", "r2"} {
			if m := s.machine(name); !working(m) || !strings.HasPrefix(m.Reason, "holds ") {
				t.Errorf("with guests that sleep %s is %s: %s", name, m.Phase, m.Reason)
			}
		}
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.untilAwake(id, before)
		if !s.hasSaid("resumed, with everything that ran on it") {
			t.Error("nobody told of it")
		}
		s.pauseKeeping(id) // and again
		s.untilAsleep(id, 4)
		// gives the memory up
		s.update(func(ctx context.Context, tx *core.Tx) error { return cluster.PausePatiently(ctx, tx, id, 0) })
		s.untilPaused(id)
		s.untilWhole("r1", "r2")
		if left, _ := s.substrate.List(t.Context()); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.untilReady(id, 4)
		s.pauseKeeping(id)
		s.untilAsleep(id, 4)
		s.remove(id)
		s.untilWhole("r1", "r2")
		kindstest.Metered(t, s.db)
	})
}

func TestAHypervisorThatIsDrainedWaitsForTheGuestsThatSleepThere(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s, _ := newRemoteSleepingFixture(t, t.TempDir()+"/db", nil)
	s.run(1)
	id, before := s.spread()
	s.pauseKeeping(id)
	s.untilAsleep(id, 4)
	s.drain("r2")
	s.awaitMachine("r2", "waiting", func(m machine.Machine) bool {
		return m.Phase == machine.InUse && strings.HasPrefix(m.Reason, "waits until its guests, 1 now, have gone")
	})
	var refusal *admission.Refusal
	if err := s.resume(id); !errors.As(err, &refusal) ||
		!strings.Contains(refusal.Error(), "node n4 is suspended on r2, which has no room for it now") {
		t.Fatalf("resumed where there is no room: %v", err)
	}
	s.update(func(ctx context.Context, tx *core.Tx) error { return machine.Want(ctx, tx, "r2", machine.ForService) })
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilAwake(id, before)
}

func TestGuestsWhoseHypervisorIsLostWhileTheySleepAreReplacedAtTheResume(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s, a := newRemoteSleepingFixture(t, t.TempDir()+"/db", func(l *substrate.Deadlines) { l.Silence = 2 * hush })
	s.run(1)
	id, before := s.spread()
	s.pauseKeeping(id)
	s.untilAsleep(id, 4)
	a.rack.mu.Lock()
	a.rack.silent["r2"] = true
	a.rack.mu.Unlock()
	left := s.untilAsleep(id, 3)
	if slices.ContainsFunc(left, func(n node.Node) bool { return n.ID == before[3].ID }) {
		t.Errorf("%s sleeps on", before[3].Name)
	}
	if !s.hasSaid("its memory is lost, and it is replaced when its cluster is resumed: its host r2 is quarantined: ") {
		t.Error("nobody told why")
	}
	s.untilWhole("r2")
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 4)
	s.until(id, "one of them new", func(_ cluster.Cluster, all []node.Node) bool {
		return all[1].ID == before[0].ID && all[2].ID == before[1].ID && all[3].ID == before[2].ID && all[4].ID != before[3].ID
	})
}

// Its guests may be awake or not: that is not known, and never will be.
func TestAHypervisorThatIsLostWhileItsGuestsFallAsleepKeepsNoPauseUp(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s, a := newRemoteSleepingFixture(t, t.TempDir()+"/db", func(l *substrate.Deadlines) { l.Silence = 2 * hush })
	s.run(1)
	s.settled(1, "r1", "r2")
	id := s.createGuests("parts", 2)
	s.untilReady(id, 2)
	host := ""
	s.until(id, "both on one machine", func(_ cluster.Cluster, all []node.Node) bool {
		host = all[1].HostID
		return host == all[2].HostID
	})
	a.mu.Lock()
	a.stuck = true
	a.mu.Unlock()
	s.pauseKeeping(id)
	s.until(id, "falling asleep", func(_ cluster.Cluster, all []node.Node) bool {
		return !slices.ContainsFunc(all, func(n node.Node) bool {
			return !strings.HasPrefix(n.Reason, "is being suspended: under way: its hypervisor is at it")
		})
	})
	a.rack.mu.Lock()
	a.rack.silent[host] = true
	a.rack.mu.Unlock()
	s.untilPaused(id)
	a.mu.Lock()
	a.stuck = false
	a.mu.Unlock()
	s.untilWhole(host)
	if err := s.resume(id); err != nil {
		t.Fatal(err)
	}
	s.untilReady(id, 2)
}

func TestMemoryThatIsNotWrittenInTimeIsGivenUp(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s, a := newRemoteSleepingFixture(t, t.TempDir()+"/db", nil)
	s.limitGuests(func(l *substrate.Deadlines) { l.Move, l.KillGrace = 2*time.Second, 100*time.Millisecond })
	s.run(1)
	s.settled(1, "r1", "r2")
	id := s.createGuests("parts", 1)
	s.untilReady(id, 1)
	a.mu.Lock()
	a.stuck = true
	a.mu.Unlock()
	s.pauseKeeping(id)
	s.untilPaused(id)
	if !s.hasSaid("cannot be suspended, and its jobs are requeued: refused by its host: its memory was not written within 2s") {
		t.Error("nobody told why")
	}
}

func TestControllersThatComeAndGoPutAClusterToSleepAndWakeItAllTheSame(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s, a := newRemoteSleepingFixture(t, url, nil)
		stop := s.run(1)
		id, before := s.spread()
		stop()
		s.pauseKeeping(id)
		s.byShortLives("asleep", func() bool { return s.phaseOf(id) == cluster.Paused })
		s.untilAsleep(id, 4)
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		s.byShortLives("awake", func() bool { return s.phaseOf(id) == core.Ready })
		s.run(1)
		s.untilAwake(id, before)
		if v := a.Violations(); len(v) > 0 {
			t.Error(v)
		}
	})
}
