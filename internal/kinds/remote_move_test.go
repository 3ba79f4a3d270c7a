package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/testall"
)

// remoteMovers move guests between machines of the rack, as their agents do: while the caller looks away.
type remoteMovers struct {
	*rack
	mu     sync.Mutex
	asked  map[string]int // calls of Move, by guest
	fails  error          // every move that is asked for the third time
	dice   *rand.Rand     // nil: nothing happens by chance
	forgot []string
}

func (m *remoteMovers) Reaches(string) bool { return true }

func (m *remoteMovers) Move(ctx context.Context, n substrate.Node, from, to string) error {
	m.mu.Lock()
	m.asked[n.Machine]++
	asked, fails := m.asked[n.Machine], m.fails
	m.mu.Unlock()
	if err := m.accident(); err != nil {
		return err
	}
	if asked < 3 {
		m.rack.mu.Lock()
		m.rack.asks = append(m.rack.asks, n.Node)
		m.rack.mu.Unlock()
		return fmt.Errorf("%w: waits for hypervisor %s to copy it to %s", substrate.ErrUnderway, from, to)
	}
	if fails != nil {
		return fails
	}
	if err := m.rack.guestProvider.Move(ctx, n, from, to); err != nil {
		return err
	}
	m.rack.mu.Lock()
	defer m.rack.mu.Unlock()
	m.rack.lives[n.Machine] = to
	return nil
}

// accident is what may become of a move by chance.
func (m *remoteMovers) accident() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dice == nil {
		return nil
	}
	switch m.dice.IntN(8) {
	case 0:
		return fmt.Errorf("%w: an accident", substrate.ErrStays)
	case 1:
		return fmt.Errorf("%w: it is copied", substrate.ErrUnderway)
	case 2:
		return errors.New("nobody knows where it is")
	}
	if m.dice.IntN(30) == 0 {
		return fmt.Errorf("%w: an accident", substrate.ErrEnded)
	}
	return nil
}

func (m *remoteMovers) Forget(_ context.Context, r substrate.Ref, host string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgot = append(m.forgot, r.Node+" at "+host)
	return nil
}

// newRemoteFixture has two hypervisors that are machines of the rack: r1 with a cluster of two guests, and r2 with none.
func newRemoteFixture(t *testing.T, url string) (s *fixture, m *remoteMovers, id string) {
	s, r := newRackFixture(t, url, 2, 2, func(l *substrate.Deadlines) { l.Idle = time.Hour })
	r.lives = map[string]string{}
	m = &remoteMovers{rack: r, asked: map[string]int{}}
	provider := s.deps.Providers["vm"]
	provider.Mover = m
	s.deps.Providers["vm"] = provider
	s.run(2)
	s.settled(2, "r1", "r2")
	id = s.createGuests("parts", 2)
	s.untilReady(id, 2)
	s.update(func(ctx context.Context, tx *core.Tx) error {
		return machine.Want(ctx, tx, "r1", machine.ForMaintenance)
	})
	other := s.createGuests("other", 1)
	s.untilReady(other, 1)
	s.update(func(ctx context.Context, tx *core.Tx) error { return machine.Want(ctx, tx, "r1", machine.ForService) })
	s.remove(other)
	s.awaitMachine("r2", "an idle hypervisor", working)
	s.awaitMachine("r2-g1", "gone", absent)
	return s, m, id
}

func TestTheGuestsOfADrainedMachineOfTheRackMove(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s, m, id := newRemoteFixture(t, url)
		var before []node.Node
		s.until(id, "on r1", func(_ cluster.Cluster, all []node.Node) bool {
			before = all[1:]
			return before[0].HostID == "r1" && before[1].HostID == "r1"
		})
		s.drain("r1")
		s.awaitMachine("r1", "switched off, out of service", func(m machine.Machine) bool {
			return m.Phase == machine.Maintenance
		})
		s.until(id, "the same nodes on r2", func(_ cluster.Cluster, all []node.Node) bool {
			return !slices.ContainsFunc(all[1:], func(n node.Node) bool {
				return n.HostID != "r2" || n.Phase != core.Ready || !slices.ContainsFunc(before, func(b node.Node) bool {
					return b.ID == n.ID && b.Boot == n.Boot
				})
			})
		})
		if !s.hasSaid("moves from r1 to r2 while it runs") || !s.hasSaid("has moved from r1 to r2 in ") {
			t.Error("nobody told of it")
		}
		for _, name := range []string{"r1-g1", "r1-g2"} {
			if g := s.machine(name); g.Host != "r2" || g.Moves != nil || g.Phase != machine.InUse {
				t.Errorf("guest %s: %+v", name, g)
			}
		}
		m.mu.Lock()
		asked := m.asked["r1-g1"]
		m.mu.Unlock()
		if asked < 3 || asked > 5 { // a step that is lost on a busy host is done again
			t.Errorf("its move was asked for %d times", asked)
		}
		s.remove(id)
		s.awaitMachine("r1-g1", "gone", absent)
	})
}

func TestAGuestOfTheRackThatCannotMoveStaysAndSaysWhy(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s, m, id := newRemoteFixture(t, t.TempDir()+"/db")
	m.mu.Lock()
	m.fails = fmt.Errorf("%w: hypervisor r1: the way was blocked", substrate.ErrStays)
	m.mu.Unlock()
	s.drain("r1")
	s.until(id, "told", func(_ cluster.Cluster, all []node.Node) bool {
		return strings.Contains(all[1].Reason, "could not move to r2") && strings.Contains(all[2].Reason, "could not move to r2")
	})
	if !s.hasSaid("could not move from r1 to r2: it stays where it is: hypervisor r1: the way was blocked") {
		t.Error("no event says why")
	}
	for _, name := range []string{"r1-g1", "r1-g2"} {
		g := s.machine(name)
		if g.Host != "r1" || g.Moves != nil || g.Phase != machine.InUse {
			t.Errorf("guest %s: %+v", name, g)
		}
		s.view(func(ctx context.Context, tx *core.Tx) error {
			holder, err := host.Holder(ctx, tx, host.Guest{Machine: inventory.Machine{ID: "somebody", Host: "r2"},
				Allocation: *g.Allocation})
			if holder != "" {
				t.Errorf("guest %s holds a part of r2 still", holder)
			}
			return err
		})
	}
	s.remove(id)
	s.awaitMachine("r1-g1", "gone", absent)
}

func TestAGuestOfTheRackThatIsToEndOnItsWayIsForgottenThere(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s, m, id := newRemoteFixture(t, t.TempDir()+"/db")
	m.mu.Lock()
	m.fails = fmt.Errorf("%w: it is copied", substrate.ErrUnderway)
	m.mu.Unlock()
	s.drain("r1")
	s.until(id, "on its way", func(_ cluster.Cluster, all []node.Node) bool {
		return all[1].Phase == core.Ready && strings.Contains(all[1].Reason, "moves to r2: under way: it is copied")
	})
	s.remove(id)
	s.awaitMachine("r1-g1", "gone", absent)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.forgot) == 0 || !strings.HasSuffix(m.forgot[0], " at r2") {
		t.Errorf("forgotten: %v", m.forgot)
	}
}

// A free machine becomes a hypervisor for a guest that is new, and not for one that could move: that one is replaced.
func TestWithoutAnotherHypervisorOfTheRackGuestsAreReplaced(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	s, r := newRackFixture(t, t.TempDir()+"/db", 1, 2, nil)
	provider := s.deps.Providers["vm"]
	provider.Mover = &remoteMovers{rack: r, asked: map[string]int{}}
	s.deps.Providers["vm"] = provider
	s.run(1)
	s.settled(1, "r1", "r2")
	id := s.createGuests("parts", 1)
	s.untilReady(id, 1)
	s.drain("r1")
	s.until(id, "another on r2", func(c cluster.Cluster, all []node.Node) bool {
		return c.Phase == core.Ready && len(all) == 2 && all[1].HostID == "r2" && all[1].Phase == core.Ready
	})
	s.awaitMachine("r1", "out of service", func(m machine.Machine) bool { return m.Phase == machine.Maintenance })
}

// Whatever becomes of each move, at last the host is empty, its cluster whole, and each guest holds a part of one host.
func TestADrainOfTheRackEndsWhateverBecomesOfItsMoves(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	for range 3 {
		s, m, id := newRemoteFixture(t, t.TempDir()+"/db")
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		m.mu.Lock()
		m.dice = rand.New(rand.NewPCG(seed, 1))
		m.mu.Unlock()
		s.drain("r1")
		s.until(id, "whole, and on r2", func(c cluster.Cluster, all []node.Node) bool {
			for _, n := range all {
				s.wake(n.ID) // as reports do, and so that no node waits for a minute
			}
			time.Sleep(50 * time.Millisecond)
			return c.Phase == core.Ready && len(all) == 3 && !slices.ContainsFunc(all[1:], func(n node.Node) bool {
				return n.HostID != "r2" || n.Phase != core.Ready
			})
		})
		s.awaitMachine("r1", "switched off, out of service", func(m machine.Machine) bool {
			return m.Phase == machine.Maintenance
		})
		s.view(func(ctx context.Context, tx *core.Tx) error {
			left, err := machine.GuestsOn(ctx, tx, "r1")
			if len(left) > 0 {
				t.Errorf("something is held of r1 still: %+v", left)
			}
			machines, err2 := machine.List(ctx, tx)
			for _, g := range machines {
				if g.Host != "" && (g.Moves != nil || g.Host != "r2") {
					t.Errorf("guest %+v", g)
				}
			}
			return errors.Join(err, err2)
		})
		s.remove(id)
	}
}
