package kinds_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

// movers moves guests in the fake world, and notes which.
type movers struct {
	*fake.Substrate
	mu     sync.Mutex
	moved  []string
	fails  error         // every one of the guest that is moved first
	first  string        // that guest
	broken error         // every one
	stands chan struct{} // closed when a move stands still until its controller ends; nil: none does
}

func (m *movers) Move(ctx context.Context, n substrate.Node, from, to string) error {
	m.mu.Lock()
	stands, fails := m.stands, m.broken
	m.stands = nil
	if m.fails != nil && cmp.Or(m.first, n.Machine) == n.Machine {
		m.first, fails = n.Machine, m.fails
	}
	if stands == nil && fails == nil {
		m.moved = append(m.moved, fmt.Sprintf("%s %s→%s core %d", n.Machine, from, to, n.Allocation.Cells[0].Cores[0]))
	}
	m.mu.Unlock()
	switch {
	case stands != nil:
		close(stands)
		<-ctx.Done()
		return ctx.Err()
	case fails != nil:
		return fails
	}
	return m.Substrate.Move(ctx, n, from, to)
}

func (m *movers) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.moved)
	return slices.Compact(m.moved) // a step may be done twice
}

// newMovingFixture is a guest stage with a head's place, two hosts, and guests that move.
func newMovingFixture(t *testing.T, url string) (*fixture, *movers) {
	s, g := newGuestFixture(t, url, 1, 2)
	m := &movers{Substrate: g.Substrate}
	provider := s.deps.Providers["vm"]
	provider.Mover = m
	s.deps.Providers["vm"] = provider
	return s, m
}

// onHV1 waits for two hosts, and makes a cluster of two guests, which are on hv1.
func (s *fixture) onHV1() (id string, nodes []node.Node) {
	s.Helper()
	s.untilFree(1)
	s.awaitMachine("hv1", "available", available)
	s.awaitMachine("hv2", "available", available)
	id = s.createGuests("parts", 2)
	s.untilReady(id, 2)
	s.until(id, "on hv1", func(_ cluster.Cluster, all []node.Node) bool {
		nodes = all[1:]
		return nodes[0].HostID == "hv1" && nodes[1].HostID == "hv1"
	})
	return id, nodes
}

func (s *fixture) drain(hostID string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error { return host.DrainMachine(ctx, tx, hostID) })
}

func TestTheGuestsOfADrainedHostMoveAndStayReady(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s, m := newMovingFixture(t, url)
		s.run(2)
		id, before := s.onHV1()
		var last int64
		s.view(func(ctx context.Context, tx *core.Tx) error {
			events, err := tx.Events(ctx, core.EventsOf{Limit: 1000})
			last = events[len(events)-1].Seq
			return err
		})
		s.drain("hv1")
		s.awaitMachine("hv1", "out of service", func(m machine.Machine) bool { return m.Phase == machine.Maintenance })
		s.until(id, "the same nodes on hv2", func(_ cluster.Cluster, all []node.Node) bool {
			for i, n := range all[1:] {
				if n.ID != before[i].ID || n.Boot != before[i].Boot || n.HostID != "hv2" || n.Machine != before[i].Machine {
					return false
				}
			}
			return true
		})
		if got := strings.Join(m.all(), "; "); got != "hv1-g1 hv1→hv2 core 1; hv1-g2 hv1→hv2 core 2" &&
			got != "hv1-g1 hv1→hv2 core 2; hv1-g2 hv1→hv2 core 1" {
			t.Errorf("moved %s", got)
		}
		for _, name := range []string{"hv1-g1", "hv1-g2"} {
			if g := s.machine(name); g.Host != "hv2" || g.Moves != nil || g.Allocation == nil || g.Allocation.Guest != name ||
				g.Phase != machine.InUse {
				t.Errorf("guest %s: %+v", name, g)
			}
		}
		if !s.hasSaid("moves from hv1 to hv2 while it runs") || !s.hasSaid("has moved from hv1 to hv2 in ") {
			t.Error("nobody told of it")
		}
		s.view(func(ctx context.Context, tx *core.Tx) error {
			events, err := tx.Events(ctx, core.EventsOf{Limit: 1000, After: last})
			for _, e := range events {
				if e.Type == "node.phase" {
					t.Errorf("node %s left its phase: %s: %s", e.Node, e.Phase, e.Text)
				}
			}
			return err
		})
		s.update(func(ctx context.Context, tx *core.Tx) error { return machine.Want(ctx, tx, "hv1", machine.ForService) })
		s.awaitMachine("hv1", "back", available)
		s.drain("hv2") // all of hv1 is free again
		s.awaitMachine("hv2", "out of service", func(m machine.Machine) bool { return m.Phase == machine.Maintenance })
		s.remove(id)
		s.awaitMachine("hv1-g1", "gone", absent)
	})
}

func TestAMoveThatACrashCutOffIsEndedByTheNextController(t *testing.T) {
	t.Parallel()
	s, m := newMovingFixture(t, t.TempDir()+"/db")
	stop := s.run(1)
	_, before := s.onHV1()
	stands := make(chan struct{})
	m.mu.Lock()
	m.stands = stands
	m.mu.Unlock()
	s.drain("hv1")
	<-stands
	stop()
	if g := s.machine("hv1-g1"); g.Moves == nil {
		g = s.machine("hv1-g2")
		if g.Moves == nil || g.Moves.Host != "hv2" || g.Host != "hv1" {
			t.Errorf("no guest is on its way: %+v", g)
		}
	}
	s.run(1)
	s.awaitMachine("hv1", "out of service", func(m machine.Machine) bool { return m.Phase == machine.Maintenance })
	s.view(func(ctx context.Context, tx *core.Tx) error {
		for _, was := range before {
			if n, err := node.Get(ctx, tx, was.ID); err != nil || n.Phase != core.Ready || n.HostID != "hv2" {
				t.Errorf("node %s is %s on %s: %v", n.Name, n.Phase, n.HostID, err)
			}
		}
		return nil
	})
}

func TestAGuestThatCannotMoveStaysAndHoldsNothingElsewhere(t *testing.T) {
	t.Parallel()
	s, m := newMovingFixture(t, t.TempDir()+"/db")
	s.run(1)
	id, before := s.onHV1()
	s.update(func(ctx context.Context, tx *core.Tx) error { return node.WantAbsent(ctx, tx, before[1].ID, 0) })
	s.until(id, "another", func(_ cluster.Cluster, all []node.Node) bool {
		return len(all) == 3 && all[2].ID != before[1].ID && all[2].Phase == core.Ready
	})
	m.mu.Lock()
	m.fails = fmt.Errorf("%w: the way was blocked", substrate.ErrStays)
	m.mu.Unlock()
	s.drain("hv1")
	s.until(id, "told, and the other one away", func(_ cluster.Cluster, all []node.Node) bool {
		away := slices.ContainsFunc(all, func(n node.Node) bool { return n.HostID == "hv2" })
		return away && s.hasSaid("could not move from hv1 to hv2: it stays where it is: the way was blocked")
	})
	var stays machine.Machine
	for _, name := range []string{"hv1-g1", "hv1-g2", "hv1-g3"} {
		if g := s.machine(name); g.Host == "hv1" {
			stays = g
		}
	}
	if stays.ID == "" || stays.Moves != nil || stays.Phase != machine.InUse {
		t.Errorf("the guest that stays is %+v", stays)
	}
	s.view(func(ctx context.Context, tx *core.Tx) error {
		holder, err := host.Holder(ctx, tx, host.Guest{Machine: inventory.Machine{ID: "somebody", Host: "hv2"},
			Allocation: *stays.Allocation})
		if holder == stays.Name {
			t.Error("it holds a part of hv2 still")
		}
		return err
	})
}

// TestAGuestOnItsWayIsNotGivenUp has a guest that its host slows down for as long as it moves, so that its agent does not speak.
func TestAGuestOnItsWayIsNotGivenUp(t *testing.T) {
	t.Parallel()
	s, m := newMovingFixture(t, t.TempDir()+"/db")
	s.limitGuests(func(l *substrate.Deadlines) { l.Silence = hush })
	h := &heart{fixture: s, says: func(node.Node) speech { return well }, ceded: make(chan struct{}, 1)}
	s.run(1)
	h.beat()
	id, before := s.onHV1()
	m.mu.Lock()
	m.broken = substrate.ErrUnderway
	m.mu.Unlock()
	s.drain("hv1")
	slow := before[0]
	moves := func() *machine.Move { return s.machine(slow.Machine).Moves }
	s.until(id, "on its way", func(cluster.Cluster, []node.Node) bool { return moves() != nil })
	h.change(func(n node.Node) speech {
		if n.ID == slow.ID {
			return silent
		}
		return well
	})
	time.Sleep(3 * hush) // several looks at it: each would give it up
	if s.hasSaid("was silent for") || moves() == nil {
		t.Fatal("it was given up on its way")
	}
	m.mu.Lock()
	m.broken = fmt.Errorf("%w: it never came to an end", substrate.ErrStays)
	m.mu.Unlock()
	s.wake(slow.ID)
	s.until(id, "given up at last", func(cluster.Cluster, []node.Node) bool { return s.hasSaid("was silent for") })
	if had := s.between("node.stays", slow.Name); had < hush/2 {
		t.Errorf("it had %s to speak again after its move", had)
	}
}

func TestAGuestThatEndsOnItsWayIsReplaced(t *testing.T) {
	t.Parallel()
	s, m := newMovingFixture(t, t.TempDir()+"/db")
	s.run(1)
	id, before := s.onHV1()
	m.mu.Lock()
	m.fails = fmt.Errorf("%w: its QEMU was killed", substrate.ErrEnded)
	m.mu.Unlock()
	s.drain("hv1")
	s.until(id, "whole again on hv2", func(c cluster.Cluster, all []node.Node) bool {
		if c.Phase != core.Ready || len(all) != 3 {
			return false
		}
		kept := 0
		for i, n := range all[1:] {
			if n.ID == before[i].ID {
				kept++
			}
			if n.HostID != "hv2" || n.Phase != core.Ready {
				return false
			}
		}
		return kept == 1
	})
	if !s.hasSaid("it ended on its way from hv1 to hv2") {
		t.Error("nobody told why")
	}
}

func TestWhereGuestsDoNotMoveTheyAreReplaced(t *testing.T) {
	t.Parallel()
	s, _ := newGuestFixture(t, t.TempDir()+"/db", 1, 2)
	s.run(1)
	id, before := s.onHV1()
	s.drain("hv1")
	s.awaitMachine("hv1", "out of service", func(m machine.Machine) bool { return m.Phase == machine.Maintenance })
	s.until(id, "others on hv2", func(c cluster.Cluster, all []node.Node) bool {
		return c.Phase == core.Ready && len(all) == 3 && all[1].ID != before[0].ID && all[1].HostID == "hv2" &&
			all[2].HostID == "hv2"
	})
	if !s.hasSaid("its host hv1 is being drained") {
		t.Error("nobody told why")
	}
}

func TestWithoutRoomElsewhereGuestsStay(t *testing.T) {
	t.Parallel()
	s, _ := newMovingFixture(t, t.TempDir()+"/db")
	s.run(1)
	id, nodes := s.onHV1()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		return machine.Want(ctx, tx, "hv2", machine.ForMaintenance)
	})
	s.awaitMachine("hv2", "out of service", func(m machine.Machine) bool { return m.Phase == machine.Maintenance })
	s.drain("hv1")
	s.until(id, "staying", func(c cluster.Cluster, all []node.Node) bool {
		return all[1].Phase == core.Ready &&
			strings.Contains(all[1].Reason, "hv1 is being drained, and it stays: no other host of class vm has room for it")
	})
	s.update(func(ctx context.Context, tx *core.Tx) error { return machine.Want(ctx, tx, "hv1", machine.ForService) })
	s.wake(nodes[0].ID)
	s.until(id, "left in peace", func(c cluster.Cluster, all []node.Node) bool {
		return !strings.Contains(all[1].Reason, "is being drained")
	})
}

func TestAClusterIsDeletedAlthoughAMoveDoesNotEnd(t *testing.T) {
	t.Parallel()
	s, m := newMovingFixture(t, t.TempDir()+"/db")
	s.run(1)
	id, _ := s.onHV1()
	m.mu.Lock()
	m.broken = errors.New("nobody knows where it is")
	m.mu.Unlock()
	s.drain("hv1")
	s.until(id, "on its way", func(_ cluster.Cluster, all []node.Node) bool {
		return strings.Contains(all[1].Reason, "nobody knows where it is")
	})
	s.remove(id)
	s.awaitMachine("hv1-g1", "gone", absent)
}

// Another controller may have begun a move; one without guests of its own knows nothing of it.
func TestAControllerThatMovesNoGuestsSaysSo(t *testing.T) {
	t.Parallel()
	s, _ := newGuestFixture(t, t.TempDir()+"/db", 1, 2)
	s.run(1)
	id, _ := s.onHV1()
	guest := s.machine("hv1-g1")
	s.update(func(ctx context.Context, tx *core.Tx) error {
		tx.Wake(node.Kind, guest.Holder)
		there := host.Guest{Machine: guest.Machine, Allocation: *guest.Allocation}
		there.Machine.Host = "hv2"
		return host.StartMove(ctx, tx, there)
	})
	s.until(id, "told", func(_ cluster.Cluster, all []node.Node) bool {
		return strings.Contains(all[1].Reason, "it was on its way to hv2, and this controller moves no guests")
	})
}
