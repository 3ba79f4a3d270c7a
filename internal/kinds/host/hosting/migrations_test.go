package hosting

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/drivers/substrate/vm"
	"muster/internal/hostd"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/place"
	"muster/internal/protocol"
)

// What a paper guest is at a host.
const (
	nowhere = ""
	placed  = "a place for it"
	halted  = "whole, and stands still"
	alive   = "runs"
	dead    = "has ended"
	asleep  = "sleeps"
)

// papers are the hosts of one guest, which is on paper. All else is what a site has: rows, calls of agents, agents, and TLS
// between them.
type papers struct {
	*testing.T
	mu    sync.Mutex
	dice  *rand.Rand
	calm  bool // nothing fails any more
	hosts [2]*paper
	made  int // times that it was made
}

// paper is one host: the driver of guests, the networks and the images of its agent.
type paper struct {
	*fake.Substrate // its networks
	all             *papers
	other           *paper
	fixture         string
	boot            int64
	allocation      *place.Allocation
}

var errAccident = errors.New("an accident")

// do is one call: it may fail before or after it has done what it does.
func (p *paper) do(what func() error) error {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if !p.all.calm && p.all.dice.IntN(12) == 0 {
		return errAccident
	}
	err := what()
	if p.all.hosts[0].fixture == alive && p.all.hosts[1].fixture == alive {
		p.all.Error("two guests run")
	}
	if err == nil && !p.all.calm && p.all.dice.IntN(12) == 0 {
		return errAccident
	}
	return err
}

func (p *paper) is() string {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	return p.fixture
}

func (p *paper) Emulates() bool { return false }

func (p *paper) Ensure(_ context.Context, n substrate.Node) error {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.all.made++
	p.fixture, p.boot, p.allocation = alive, n.Boot, n.Allocation
	return nil
}

func (p *paper) Observe(context.Context, substrate.Ref) (substrate.Observation, error) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.fixture == nowhere {
		return substrate.Observation{}, nil
	}
	return substrate.Observation{Present: true, Running: p.fixture == alive, Boot: p.boot, Detail: p.fixture,
		Allocation: p.allocation}, nil
}

func (p *paper) Remove(_ context.Context, r substrate.Ref) error {
	return p.do(func() error {
		if p.fixture == halted && p.other.fixture != alive {
			p.all.Error("the only whole copy is thrown away")
		}
		p.fixture = nowhere
		return nil
	})
}

func (p *paper) List(context.Context) ([]substrate.Ref, error) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.fixture == nowhere {
		return nil, nil
	}
	return []substrate.Ref{{Cluster: "c1", Node: "c1-node-1", Boot: p.boot}}, nil
}

func (p *paper) Leave(context.Context, substrate.Ref) (description string, err error) {
	return "it", p.do(func() error {
		if p.fixture != alive {
			return vm.ErrNotHere
		}
		return nil
	})
}

func (p *paper) Receive(_ context.Context, n substrate.Node, _ string) (string, error) {
	return "it, here", p.do(func() error {
		if p.fixture == alive || p.fixture == halted && p.other.fixture != alive {
			p.all.Errorf("a place is made where it %s", p.fixture)
		}
		p.fixture, p.boot, p.allocation = placed, n.Boot, n.Allocation
		return nil
	})
}

func (p *paper) Send(ctx context.Context, _ substrate.Ref, _ string, dial vm.Dial) error {
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte{'!'}); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return err
	}
	return p.do(func() error {
		if p.other.fixture != halted || p.fixture != alive {
			return errors.New("it broke off")
		}
		p.fixture = dead
		return nil
	})
}

func (p *paper) Dial(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
			return
		}
		if p.do(func() error {
			if p.fixture != placed {
				return errors.New("there is no place")
			}
			p.fixture = halted
			return nil
		}) == nil {
			_, _ = far.Write([]byte{'!'})
		}
	}()
	return near, nil
}

func (p *paper) Arrive(context.Context, substrate.Node) error {
	return p.do(func() error {
		switch p.fixture {
		case alive:
			return nil
		case halted:
			p.fixture = alive
			return nil
		}
		return vm.ErrNotHere
	})
}

func (p *paper) PlugPort(context.Context, substrate.Node, string) error { return nil }
func (p *paper) DropPort(context.Context, string, string) error         { return nil }

// Fetch and Keep are of images, which are there.
func (p *paper) Fetch(context.Context, protocol.HostedImage, io.Writer) error { return nil }
func (p *paper) Keep([]protocol.HostedImage) error                            { return nil }

// caller speaks for a hypervisor's agent.
type caller struct{ *fakeHost }

func (c caller) Hosting(ctx context.Context, after int64) (*protocol.Hosting, error) {
	var news protocol.Hosting
	err := c.call(ctx, http.MethodGet, fmt.Sprintf("%s?after=%d", protocol.HostingPath, after), nil, &news)
	if refused := (*refusal)(nil); errors.As(err, &refused) && refused.status == http.StatusNoContent {
		return nil, nil
	}
	return &news, err
}

func (c caller) Hosted(ctx context.Context, r protocol.HostReport) (reply protocol.ReportReply, err error) {
	err = c.call(ctx, http.MethodPost, protocol.HostedPath, r, &reply)
	return reply, err
}

// migration is a stand with two hypervisors, whose agents are the true ones.
type migration struct {
	*fixture
	papers *papers
	mover  *remote.Mover
	dirs   [2]string
	keys   [2]hostd.Keys
	call   [2]caller
	stop   [2]func()
}

var hypervisors = [2]string{"hv", "hv2"}

func newMigration(t *testing.T, seed uint64) *migration {
	s := newFixture(t)
	m := &migration{fixture: s, papers: &papers{T: t, dice: rand.New(rand.NewPCG(seed, 1)), calm: true}}
	m.mover = remote.NewMover(remote.MoverConfig{Migrations: migrations{s.db}, Silence: time.Hour,
		Patience: 100 * time.Millisecond, Limit: time.Hour})
	s.update(func(ctx context.Context, tx *core.Tx) error {
		err := errors.Join(machine.Add(ctx, tx, inventory.Machine{ID: "hv2", Name: "hv2", Substrate: "metal", Network: "rack",
			MACs: []string{"52:54:00:00:00:02"}}),
			network.LearnLease(ctx, tx, "rack", "52:54:00:00:00:02", netip.MustParseAddr("127.0.0.2")),
			machine.StartInspection(ctx, tx, "hv2", false))
		if err == nil { // somebody's else, by which it is a hypervisor
			err = host.AddGuest(ctx, tx, host.Guest{
				Machine:    inventory.Machine{ID: "other", Name: "other", Substrate: "vm", Host: "hv2"},
				Allocation: place.Allocation{Share: 1, Cells: []place.Cell{{Cores: []int{9}, MemoryMiB: 64}}},
			}, "for a test")
		}
		if err == nil {
			_, err = machine.BeginBoot(ctx, tx, machine.Boot{MachineID: "hv2", Subject: "hv2", Number: 1, Image: "sha256:00",
				File: protocol.BootFile{Node: "hv2", Boot: 1, Duty: protocol.Host}})
		}
		return err
	})
	for i, name := range hypervisors {
		m.papers.hosts[i] = &paper{Substrate: fake.New(fake.Options{}), all: m.papers}
		m.dirs[i] = t.TempDir()
		h, err := newFakeHost(s.server.URL, protocol.BootFile{Node: name, Boot: 1, Authority: s.authority.AgentsPEM()}, nil,
			func(_ *fakeHost, csr, _ string) (string, error) {
				certificate, key, err := s.authority.CertifyAgent(csr, identity.Agent{Node: name, Boot: 1}, time.Now())
				s.update(func(ctx context.Context, tx *core.Tx) error {
					_, err := machine.UseInspectionToken(ctx, tx, name, 1, key) // the boot is joined, with this key
					return err
				})
				return certificate, err
			})
		if err != nil {
			t.Fatal(err)
		}
		h.client.Transport.(*http.Transport).DialContext = (&net.Dialer{
			LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(i+1))}}).DialContext
		config := h.client.Transport.(*http.Transport).TLSClientConfig
		own, err := config.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		m.call[i], m.keys[i] = caller{h}, hostd.Keys{Certificate: func() *tls.Certificate { return own }, Roots: config.RootCAs}
	}
	m.papers.hosts[0].other, m.papers.hosts[1].other = m.papers.hosts[1], m.papers.hosts[0]
	for i := range hypervisors {
		m.start(i)
	}
	t.Cleanup(func() { m.stop[0](); m.stop[1]() })
	return m
}

// start has a hypervisor's agent work.
func (m *migration) start(i int) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p := m.papers.hosts[i]
	go func() {
		defer close(done)
		if err := hostd.Run(ctx, hostd.Options{
			Controller: m.call[i], Refused: errors.New("refused"), Boot: 1, Guests: p, Networks: p, Images: p, Movers: p,
			Sleepers: p, Keys: m.keys[i], Dir: m.dirs[i],
			Address: func() (netip.AddrPort, error) {
				return netip.ParseAddrPort("127.0.0.1:0")
			}, Console: io.Discard, Look: 5 * time.Millisecond,
		}); err != nil {
			m.Error(err)
		}
	}()
	m.stop[i] = func() { cancel(); <-done }
}

// travel takes the guest from one host to the other, and does to the rows what a node's life does. It says what came of it.
func (m *migration) travel(n substrate.Node, from, to int) error {
	m.Helper()
	target := host.Guest{Machine: inventory.Machine{ID: "id-" + n.Node, Name: n.Machine, Substrate: "vm", Host: hypervisors[to]},
		Allocation: *n.Allocation}
	m.update(func(ctx context.Context, tx *core.Tx) error { return host.StartMove(ctx, tx, target) })
	kills := 0
	for end := time.Now().Add(time.Minute); ; {
		err := m.mover.Move(context.Background(), n, hypervisors[from], hypervisors[to])
		switch {
		case err == nil:
			m.update(func(ctx context.Context, tx *core.Tx) error { return host.EndMove(ctx, tx, target) })
			return nil
		case errors.Is(err, substrate.ErrStays):
			m.update(func(ctx context.Context, tx *core.Tx) error { return host.CallOffMove(ctx, tx, target.ID) })
			return err
		case !errors.Is(err, substrate.ErrUnderway):
			return err
		case time.Now().After(end):
			m.Fatalf("it comes to no end: %v", err)
		}
		m.papers.mu.Lock()
		restart := -1
		if !m.papers.calm && kills < mostKills && m.papers.dice.IntN(3) == 0 {
			kills++
			restart = m.papers.dice.IntN(2)
		}
		m.papers.mu.Unlock()
		if restart >= 0 { // an agent is killed, and started again
			m.stop[restart]()
			m.start(restart)
		}
	}
}

func (m *migration) calm(is bool) {
	m.papers.mu.Lock()
	defer m.papers.mu.Unlock()
	m.papers.calm = is
}

// Agents, calls, rows and ways are the true ones here, and only the guest is on paper: it goes to and fro while calls fail and
// agents die. The seed of a failure is in its message.
func TestAGuestGoesToAndFroWhateverFails(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	m := newMigration(t, seed)
	n := m.node(1, 1)
	n.Allocation = &place.Allocation{Guest: n.Machine, Share: 1, Cells: []place.Cell{{Cores: []int{0}, MemoryMiB: 64}}}
	if err := m.driver.Ensure(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	at, moved, stayed := 0, 0, 0
	for range 12 {
		m.calm(false)
		err := m.travel(n, at, 1-at)
		m.calm(true)
		switch {
		case err == nil:
			at, moved = 1-at, moved+1
		case errors.Is(err, substrate.ErrStays):
			stayed++
		default:
			t.Fatalf("seed %d: %v", seed, err)
		}
		m.await("it is where it is said to be", func() bool {
			seen, err := m.driver.Observe(context.Background(), n.Ref)
			return err == nil && seen.Running && m.papers.hosts[at].is() == alive && m.papers.hosts[1-at].is() == nowhere
		})
		m.noMoveIsLeft(n, hypervisors[at])
	}
	for range 2 { // and when nothing fails any more
		if err := m.travel(n, at, 1-at); err != nil {
			t.Fatalf("seed %d: calm, and the move says %v", seed, err)
		}
		at, moved = 1-at, moved+1
	}
	t.Logf("seed %d: it moved %d times, and stayed %d times", seed, moved, stayed)
	if m.papers.made != 1 {
		t.Errorf("seed %d: it was made %d times", seed, m.papers.made)
	}
	r := n.Ref
	r.Boot = 0
	if err := m.driver.Remove(t.Context(), r); err != nil {
		t.Error(err)
	}
	if m.papers.hosts[at].is() != nowhere {
		t.Error("it is removed, and there still")
	}
}

// noMoveIsLeft looks whether the rows say that the guest is one host's, and of no other.
func (m *migration) noMoveIsLeft(n substrate.Node, hostID string) {
	m.Helper()
	m.update(func(ctx context.Context, tx *core.Tx) error {
		if _, err := host.MigrationOfNode(ctx, tx, n.Node); !errors.Is(err, core.ErrNotFound) {
			m.Errorf("a move is left: %v", err)
		}
		hosted, err := host.HostedNode(ctx, tx, n.Node)
		if err != nil || hosted.HostName != hostID || !hosted.Wanted {
			m.Errorf("it is to be held by %s, and the row says %+v (%v)", hostID, hosted, err)
		}
		for _, other := range hypervisors {
			guests, err := machine.GuestsOn(ctx, tx, other)
			if err != nil {
				return err
			}
			for _, g := range guests {
				if g.ID == "id-"+n.Node && (other != hostID || g.Moves != nil) {
					m.Errorf("hypervisor %s is held a part of: %+v", other, g)
				}
			}
		}
		return nil
	})
}

// A node that is to end while its guest is on its way leaves nothing at either host.
func TestAGuestThatIsToEndOnItsWayIsNowhere(t *testing.T) {
	m := newMigration(t, 1)
	n := m.node(1, 1)
	n.Allocation = &place.Allocation{Guest: n.Machine, Share: 1, Cells: []place.Cell{{Cores: []int{0}, MemoryMiB: 64}}}
	if err := m.driver.Ensure(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	impatient := remote.NewMover(remote.MoverConfig{Migrations: migrations{m.db}, Silence: time.Hour, Patience: time.Millisecond,
		Limit: time.Hour})
	if err := impatient.Move(t.Context(), n, "hv", "hv2"); !errors.Is(err, substrate.ErrUnderway) {
		t.Fatalf("the move says %v", err)
	}
	m.await("there is a place for it", func() bool {
		_ = impatient.Move(t.Context(), n, "hv", "hv2")
		return m.papers.hosts[1].is() != nowhere
	})
	m.await("forgotten", func() bool { return m.mover.Forget(t.Context(), n.Ref, "hv2") == nil })
	if is := m.papers.hosts[1].is(); is != nowhere {
		t.Errorf("at the host that it was to come to it %s", is)
	}
	r := n.Ref
	r.Boot = 0
	m.await("removed", func() bool { return m.driver.Remove(t.Context(), r) == nil })
	if is := m.papers.hosts[0].is(); is != nowhere || m.papers.made != 1 {
		t.Errorf("where it was it %s, and was made %d times", is, m.papers.made)
	}
}

// TestWhatAHostCannotLookAtIsNotGone is about the controller's side of a report.
func TestWhatAHostCannotLookAtIsNotGone(t *testing.T) {
	s := newFixture(t)
	n := s.node(1, 1)
	s.update(func(ctx context.Context, tx *core.Tx) error {
		g, err := remote.Guest(n)
		if err != nil {
			return err
		}
		g.Try = 1
		return errors.Join(host.AssignGuest(ctx, tx, "hv", g),
			host.SaveReport(ctx, tx, "hv", protocol.HostReport{Boot: 1, Revision: 1 << 40, Guests: []protocol.HostedState{
				{Cluster: n.Cluster, Node: n.Node, Boot: 1, Try: 1, Unseen: true, Detail: "its folder cannot be read"},
			}}))
	})
	hasty := remote.New(remote.Config{Ledger: ledger{s.db}, Silence: time.Hour, Patience: 10 * time.Millisecond})
	if seen, err := hasty.Observe(t.Context(), n.Ref); err == nil {
		t.Errorf("it is observed as %+v", seen)
	}
	if err := hasty.Ensure(t.Context(), n); !errors.Is(err, substrate.ErrUnderway) {
		t.Errorf("asked to run, it is said: %v", err)
	}
	all, err := hasty.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Errorf("there are %v (%v)", all, err)
	}
	r := n.Ref
	r.Boot = 0
	if err := hasty.Remove(t.Context(), r); err == nil {
		t.Error("it counts as removed")
	}
}
