package hosting

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/drivers/substrate/vm"
	"muster/internal/kinds/host"
	"muster/internal/place"
	"muster/internal/protocol"
)

func (p *paper) Sleep(context.Context, substrate.Ref) (bytes int64, err error) {
	return 64 << 20, p.do(func() error {
		switch p.fixture {
		case alive, asleep:
			p.fixture = asleep
			return nil
		}
		return vm.ErrNotHere
	})
}

func (p *paper) Wake(context.Context, substrate.Node) error {
	return p.do(func() error {
		switch p.fixture {
		case alive, asleep:
			p.fixture = alive
			return nil
		}
		return vm.ErrNotHere
	})
}

// mostKills is how often the agents of one errand are killed: those that are killed for ever say more than they may, and wait
// longer for their turn than they live.
const mostKills = 5

// insist asks until it is known what has come of it. Meanwhile agents are killed, and started again.
func (m *migration) insist(ask func() error) error {
	m.Helper()
	kills := 0
	for end := time.Now().Add(time.Minute); ; {
		err := ask()
		switch {
		case err == nil, errors.Is(err, substrate.ErrEnded), errors.Is(err, substrate.ErrRefused),
			errors.Is(err, substrate.ErrNoRoom):
			return err
		case time.Now().After(end):
			m.Fatalf("it comes to no end: %v", err)
		}
		m.papers.mu.Lock()
		restart := !m.papers.calm && kills < mostKills && m.papers.dice.IntN(3) == 0
		m.papers.mu.Unlock()
		if restart {
			kills++
			m.stop[0]()
			m.start(0)
		}
	}
}

// hosted is a migration with a guest that runs at its first host.
func (m *migration) hosted() substrate.Node {
	m.Helper()
	n := m.node(1, 1)
	n.Allocation = &place.Allocation{Guest: n.Machine, Share: 1, Cells: []place.Cell{{Cores: []int{0}, MemoryMiB: 64}}}
	if err := m.driver.Ensure(m.Context(), n); err != nil {
		m.Fatal(err)
	}
	return n
}

// As of moves: agents, calls and rows are the true ones, and the guest is on paper. It is made once, and runs or sleeps as it
// is said to, while calls fail and agents die.
func TestAGuestSleepsAndWakesWhateverFails(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	m := newMigration(t, seed)
	n, p := m.hosted(), m.papers.hosts[0]
	hasty := remote.New(remote.Config{Ledger: ledger{m.db}, Silence: time.Hour, Patience: 20 * time.Millisecond})
	slept, stayed := 0, 0
	for range 15 {
		m.calm(false)
		err := m.insist(func() error { _, err := hasty.Sleep(context.Background(), n.Ref, "hv"); return err })
		switch {
		case err == nil && p.is() == asleep:
			slept++
		case errors.Is(err, substrate.ErrRefused) && strings.Contains(err.Error(), "has tried 3 times"):
			stayed++
		default:
			t.Fatalf("seed %d: put to sleep it %s: %v", seed, p.is(), err)
		}
		if err := m.insist(func() error { return hasty.Wake(context.Background(), n, "hv") }); err != nil || p.is() != alive {
			t.Fatalf("seed %d: woken it %s: %v", seed, p.is(), err)
		}
	}
	m.calm(true)
	t.Logf("seed %d: it slept %d times, and could not %d times", seed, slept, stayed)
	if _, err := m.driver.Sleep(t.Context(), n.Ref, "hv"); err != nil || p.is() != asleep {
		t.Fatalf("calm it %s: %v", p.is(), err)
	}
	if m.papers.made != 1 {
		t.Errorf("seed %d: it was made %d times", seed, m.papers.made)
	}
	r := n.Ref
	r.Boot = 0
	if err := m.driver.Remove(t.Context(), r); err != nil || p.is() != nowhere {
		t.Errorf("removed it %s: %v", p.is(), err)
	}
}

func TestWhatSleepsIsNeverMadeAnew(t *testing.T) {
	m := newMigration(t, 1)
	n, p := m.hosted(), m.papers.hosts[0]
	if bytes, err := m.driver.Sleep(t.Context(), n.Ref, "hv"); err != nil || bytes != 64<<20 {
		t.Fatalf("%d bytes, %v", bytes, err)
	}
	if err := m.driver.Ensure(t.Context(), n); err == nil || !strings.Contains(err.Error(), "it was suspended") ||
		p.is() != asleep {
		t.Errorf("asked to run it %s: %v", p.is(), err)
	}
	m.papers.mu.Lock()
	p.fixture = dead
	m.papers.mu.Unlock()
	for range 2 {
		if err := m.driver.Wake(t.Context(), n, "hv"); !errors.Is(err, substrate.ErrEnded) {
			t.Errorf("its memory is lost, and it wakes: %v", err)
		}
	}
	if err := m.driver.Ensure(t.Context(), n); err == nil || m.papers.made != 1 {
		t.Errorf("it was made %d times: %v", m.papers.made, err)
	}
}

func TestASilentHostIsWaitedForUntilItIsSeenOff(t *testing.T) {
	s, n, deaf := silent(t)
	var err error
	s.await("told that nobody knows", func() bool {
		s.update(func(ctx context.Context, tx *core.Tx) error { return host.Listen(ctx, tx, "rack", "test") })
		_, err = deaf.Sleep(t.Context(), n.Ref, "hv")
		return err != nil && strings.Contains(err.Error(), "hypervisor hv has been silent")
	})
	if !errors.Is(err, substrate.ErrUnderway) {
		t.Errorf("nobody knows, and it is said: %v", err)
	}
	if err := deaf.Wake(t.Context(), n, "hv"); !errors.Is(err, substrate.ErrUnderway) {
		t.Errorf("nobody knows, and it is said: %v", err)
	}
	s.update(func(ctx context.Context, tx *core.Tx) error { return host.IsOff(ctx, tx, "hv") })
	if err := deaf.Wake(t.Context(), n, "hv"); !errors.Is(err, substrate.ErrEnded) ||
		!strings.Contains(err.Error(), "what it held is lost") {
		t.Errorf("its host is off, and it is said: %v", err)
	}
	if _, err := deaf.Sleep(t.Context(), n.Ref, "hv"); !errors.Is(err, substrate.ErrEnded) {
		t.Errorf("its host is off, and it is said: %v", err)
	}
}

func TestHowATryEndedIsWhatIsSaid(t *testing.T) {
	s := newFixture(t)
	n := s.node(1, 1)
	hasty := remote.New(remote.Config{Ledger: ledger{s.db}, Silence: time.Hour, Patience: 10 * time.Millisecond})
	report := func(change func(*protocol.HostedState)) {
		s.Helper()
		s.update(func(ctx context.Context, tx *core.Tx) error {
			held, err := host.HostedNode(ctx, tx, n.Node)
			if err != nil {
				return err
			}
			state := protocol.HostedState{Cluster: n.Cluster, Node: n.Node, Boot: 1, Try: held.Guest.Try, Present: true,
				Running: true}
			change(&state)
			return host.SaveReport(ctx, tx, "hv",
				protocol.HostReport{Boot: 1, Revision: 1 << 40, Guests: []protocol.HostedState{state}})
		})
	}
	for _, one := range []struct {
		says func(*protocol.HostedState)
		want error
		text string
	}{
		{func(s *protocol.HostedState) {
			s.NoRoom = "3072 MiB are needed and 5 MiB are free"
		}, substrate.ErrNoRoom, "3072 MiB are needed"},
		{func(s *protocol.HostedState) { s.Refused = "it has devices" }, substrate.ErrRefused, "it has devices"},
		{func(s *protocol.HostedState) { s.Gone = "its QEMU has ended" }, substrate.ErrEnded, "its QEMU has ended"},
		{func(*protocol.HostedState) {}, substrate.ErrRefused, "has written nothing"}, // by an agent that knows of no sleep
	} {
		s.update(func(ctx context.Context, tx *core.Tx) error {
			g, err := remote.Guest(n)
			if err != nil {
				return err
			}
			g.Try = 1
			return host.AssignGuest(ctx, tx, "hv", g)
		})
		report(func(*protocol.HostedState) {})
		if _, err := hasty.Sleep(t.Context(), n.Ref, "hv"); !errors.Is(err, substrate.ErrUnderway) {
			t.Fatalf("it is said: %v", err)
		}
		report(one.says)
		for range 2 { // what nothing changes is not asked for again
			if _, err := hasty.Sleep(t.Context(), n.Ref, "hv"); !errors.Is(err, one.want) ||
				!strings.Contains(fmt.Sprint(err), one.text) {
				t.Errorf("not %q: %v", one.text, err)
			}
		}
	}
}
