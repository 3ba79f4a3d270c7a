package hosting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/drivers/substrate/substratetest"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/monitor"
	"muster/internal/netboot/control"
	"muster/internal/netboot/onlink"
	"muster/internal/place"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// anyImage has the files of every image.
type anyImage struct{}

func (anyImage) BootFiles(digest string) (control.Files, error) {
	return control.Files{Root: protocol.Blob{Digest: digest, Size: 1}, Kernel: "sha256:01", Drivers: "sha256:02"}, nil
}
func (anyImage) Inspector() (string, error) { return "", errors.New("nobody inspects here") }

// fixture is a controller's part of one hypervisor elsewhere: its rows, and what its agent calls.
type fixture struct {
	*testing.T
	db        *core.Store
	authority *identity.Authority
	server    *httptest.Server
	driver    *remote.Driver
}

// newFixture has the hypervisor hv, whose boot 1 was begun, and the nodes that substratetest asks for, as guests on it.
func newFixture(t *testing.T) *fixture {
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	s := &fixture{T: t, db: kindstest.Open(t, filepath.Join(t.TempDir(), "db")), authority: authority}
	n := inventory.Network{Name: "rack", Interface: "br0", Address: netip.MustParsePrefix("127.0.0.1/8"),
		Mode: inventory.ModeProxy, Unknown: inventory.UnknownIgnore}
	const mac = "52:54:00:00:00:01"
	s.update(func(ctx context.Context, tx *core.Tx) error {
		if err := errors.Join(network.Put(ctx, tx, n),
			machine.Add(ctx, tx, inventory.Machine{ID: "hv", Name: "hv", Substrate: "metal", Network: "rack",
				MACs: []string{mac}}),
			network.LearnLease(ctx, tx, "rack", mac, netip.MustParseAddr("127.0.0.1")),
			host.Listen(ctx, tx, "rack", "test"), machine.StartInspection(ctx, tx, "hv", false)); err != nil {
			return err
		}
		for c := range 2 {
			clusterID := fmt.Sprintf("c%d", c+1)
			if err := cluster.Add(ctx, tx, cluster.Cluster{ID: clusterID, Project: "default", Name: clusterID,
				Spec: spec.Cluster{Name: clusterID}, Image: "sha256:00", Credential: core.NewSecret([]byte("k")),
				CreatedBy: "admin"}); err != nil {
				return err
			}
			for i := range 8 {
				if err := addHosted(ctx, tx, clusterID, i+1, c*8+i); err != nil {
					return err
				}
			}
		}
		begun, err := machine.BeginBoot(ctx, tx, machine.Boot{MachineID: "hv", Subject: "hv", Number: 1, Image: "sha256:00",
			File: protocol.BootFile{Node: "hv", Boot: 1, Duty: protocol.Host}})
		if err == nil && !begun {
			err = errors.New("the hypervisor's boot did not begin")
		}
		return err
	})
	m := monitor.New(s.db, authority, "test", slog.New(slog.DiscardHandler))
	m.Schedulers, m.Substrates = drivers.Schedulers(), drivers.Substrates()
	m.Images = anyImage{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = m.Run(ctx) }()
	s.server = httptest.NewUnstartedServer(m.HandlerOn("rack"))
	sender, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	s.server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return onlink.With(ctx, onlink.Caller{Address: netip.MustParseAddr("127.0.0.1"), Sender: sender})
	}
	if s.server.TLS, err = authority.ServerTLS(time.Now()); err != nil {
		t.Fatal(err)
	}
	s.server.StartTLS()
	t.Cleanup(func() { s.server.CloseClientConnections(); s.server.Close(); cancel(); <-done })
	s.driver = remote.New(remote.Config{Ledger: ledger{s.db}, Silence: time.Hour, Patience: time.Minute})
	return s
}

// addHosted adds the number-th node of a cluster, as a guest that has a core of hv.
func addHosted(ctx context.Context, tx *core.Tx, clusterID string, number, core int) error {
	name, nodeID := fmt.Sprintf("n%d", number), fmt.Sprintf("%s-node-%d", clusterID, number)
	guest := host.Guest{
		Machine: inventory.Machine{ID: "id-" + nodeID, Name: fmt.Sprintf("m%s%d", clusterID, number), Substrate: "vm",
			Host: "hv"},
		Allocation: place.Allocation{Share: 1, Cells: []place.Cell{{Cores: []int{core}, MemoryMiB: 64}}},
	}
	return errors.Join(host.AddGuest(ctx, tx, guest, "for a test"),
		cluster.AddSeat(ctx, tx, clusterID, cluster.Seat{Name: name, Slot: 256 + number}),
		node.Add(ctx, tx, node.Node{ID: nodeID, Cluster: clusterID, Name: name, Role: protocol.Compute, Queue: "main",
			Class: "vm", MachineID: guest.ID, Machine: guest.Name}))
}

func (s *fixture) update(f func(context.Context, *core.Tx) error) {
	s.Helper()
	if err := s.db.Update(context.Background(), func(tx *core.Tx) error { return f(context.Background(), tx) }); err != nil {
		s.Fatal(err)
	}
}

// boot is what the machine is started with.
func (s *fixture) boot() protocol.BootFile {
	return protocol.BootFile{Node: "hv", Boot: 1, Token: s.authority.Token("hv", 1), Authority: s.authority.AgentsPEM()}
}

// start has the hypervisor's agent join and work until the test, or stop, ends it.
func (s *fixture) start(fixture *fake.Substrate) (h *fakeHost, stop func()) {
	s.Helper()
	h, err := joinHost(s.Context(), s.server.URL, s.boot(), fixture)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.run(ctx) }()
	stop = func() { cancel(); <-done }
	s.Cleanup(stop)
	return h, stop
}

// node describes a node as substratetest does.
func (s *fixture) node(number int, boot int64) substrate.Node {
	return substrate.Node{
		Ref: substrate.Ref{Cluster: "c1", Node: fmt.Sprintf("c1-node-%d", number), Boot: boot}, Name: fmt.Sprintf("n%d", number),
		Machine: fmt.Sprintf("mc1%d", number),
		Address: substrate.Address(256 + number), MAC: substrate.MAC(1, 256+number), Image: "sha256:00",
		File: protocol.BootFile{Node: fmt.Sprintf("c1-node-%d", number), Boot: boot, Token: "must not be kept"},
	}
}

func (s *fixture) await(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not %s within two minutes", what)
		}
	}
}

// sees says how a node is observed.
func (s *fixture) sees(r substrate.Ref) substrate.Observation {
	s.Helper()
	seen, err := s.driver.Observe(context.Background(), r)
	if err != nil {
		s.Fatal(err)
	}
	return seen
}

func TestAHypervisorElsewhereKeepsTheContractOfSubstrates(t *testing.T) {
	substratetest.Test(t, func(t *testing.T) substratetest.Harness {
		s := newFixture(t)
		fixture := fake.New(fake.Options{})
		s.start(fixture)
		return substratetest.Harness{
			Caps: drivers.Substrates().Of("vm"), Substrate: s.driver, Sleeper: s.driver, Image: "sha256:00",
			Allocation: func(number byte) *place.Allocation {
				return &place.Allocation{Share: 1, Cells: []place.Cell{{Cores: []int{int(number)}, MemoryMiB: 64}}}
			},
			Untried: map[string]string{
				"Capabilities.Kernel":  "the host's own driver starts it, and passes the contract by itself",
				"Capabilities.OwnCPUs": "the host's own driver gives them, and passes the contract by itself",
				"Capabilities.Moves":   "there is one host here; moves between two are tested in internal/kinds",
			},
			Crash: func(_ *testing.T, r substrate.Ref) {
				fixture.Die(r, "crashed")
				s.await("seen dead", func() bool { return !s.sees(r).Running })
			},
			HalfMake: func(t *testing.T, n substrate.Node) {
				fixture.FailEnsure(n.Node, 1, nil)
				if err := s.driver.Ensure(t.Context(), n); err == nil {
					t.Error("what failed on the host did not fail here")
				}
			},
		}
	})
}

func TestAGuestsTokenIsComputedForItsHostAndStandsNowhere(t *testing.T) {
	s := newFixture(t)
	h, _ := s.start(fake.New(fake.Options{}))
	n := s.node(1, 3)
	if err := s.driver.Ensure(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	got := h.seen[0].File.Token
	h.mu.Unlock()
	if want := s.authority.Token(n.Node, 3); got != want {
		t.Error("its host was told of another token than the boot's")
	}
	if err := s.db.View(t.Context(), func(tx *core.Tx) error {
		g, err := host.HostedNode(t.Context(), tx, n.Node)
		if g.Guest.File.Token != "" {
			t.Error("the row holds a token")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestWhatAHostRefusesIsARefusal(t *testing.T) {
	s := newFixture(t)
	h, _ := s.start(fake.New(fake.Options{}))
	h.mu.Lock()
	h.refuse = func(protocol.HostedGuest) string { return "its huge pages are gone" }
	h.mu.Unlock()
	err := s.driver.Ensure(t.Context(), s.node(1, 1))
	if !errors.Is(err, substrate.ErrRefused) || !strings.Contains(err.Error(), "huge pages") {
		t.Errorf("got %v", err)
	}
}

// silent is a host that had a guest and says nothing any more, and a driver that waits for it for a moment only.
func silent(t *testing.T) (*fixture, substrate.Node, *remote.Driver) {
	t.Helper()
	s := newFixture(t)
	_, stop := s.start(fake.New(fake.Options{}))
	n := s.node(1, 1)
	if err := s.driver.Ensure(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	stop()
	return s, n, remote.New(remote.Config{Ledger: ledger{s.db}, Patience: 10 * time.Millisecond})
}

func TestASilentHostProvesNothingUntilItIsSeenOff(t *testing.T) {
	s, n, deaf := silent(t)
	s.await("told that nobody knows", func() bool {
		s.update(func(ctx context.Context, tx *core.Tx) error { return host.Listen(ctx, tx, "rack", "test") })
		_, err := deaf.Observe(t.Context(), n.Ref)
		return err != nil && strings.Contains(err.Error(), "hypervisor hv has been silent")
	})
	r := n.Ref
	r.Boot = 0
	if err := deaf.Remove(t.Context(), r); err == nil {
		t.Error("a guest is gone of whose host nobody knows anything")
	}
	s.update(func(ctx context.Context, tx *core.Tx) error { return host.IsOff(ctx, tx, "hv") })
	if err := deaf.Remove(t.Context(), r); err != nil {
		t.Error(err)
	}
	if seen, err := deaf.Observe(t.Context(), n.Ref); err != nil || seen.Present {
		t.Errorf("of a guest on a host that is off it is said %+v, %v", seen, err)
	}
}

func TestAHostThatWasToldOfAGuestCountsAsOneThatMayHaveIt(t *testing.T) {
	s := newFixture(t)
	h, err := joinHost(t.Context(), s.server.URL, s.boot(), fake.New(fake.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	hasty := remote.New(remote.Config{Ledger: ledger{s.db}, Silence: time.Hour, Patience: 10 * time.Millisecond})
	n := s.node(1, 1)
	if err := hasty.Ensure(t.Context(), n); err == nil {
		t.Error("a guest runs on a host that was never heard")
	}
	var told protocol.Hosting
	if err := h.call(t.Context(), http.MethodGet, protocol.HostingPath+"?after=0", nil, &told); err != nil ||
		len(told.Guests) != 1 {
		t.Fatalf("told %+v, %v", told, err)
	}
	if err := hasty.Remove(t.Context(), n.Ref); err == nil {
		t.Error("it counts as gone before its host said anything")
	}
	if err := h.call(t.Context(), http.MethodPost, protocol.HostedPath, protocol.HostReport{Revision: told.Revision + 1},
		&protocol.ReportReply{}); err != nil {
		t.Fatal(err)
	}
	if err := hasty.Remove(t.Context(), n.Ref); err != nil {
		t.Errorf("its host has said that it is not there: %v", err)
	}
}

func TestOnlyAHypervisorsAgentIsToldOfGuests(t *testing.T) {
	s := newFixture(t)
	h, err := joinHost(t.Context(), s.server.URL, s.boot(), fake.New(fake.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	fetch := func() error {
		return h.call(t.Context(), http.MethodGet, protocol.HostingPath+"?after=-1", nil, &protocol.Hosting{})
	}
	if err := fetch(); err != nil {
		t.Fatal(err)
	}
	s.update(func(ctx context.Context, tx *core.Tx) error { return machine.EndBoot(ctx, tx, "hv", 1) })
	var refused *refusal
	if err := fetch(); !errors.As(err, &refused) || refused.status != http.StatusGone {
		t.Errorf("an agent that is to end got %v", err)
	}
	s.update(func(ctx context.Context, tx *core.Tx) error {
		if err := errors.Join(machine.DropBoot(ctx, tx, "hv", 1), machine.StartInspection(ctx, tx, "hv", false)); err != nil {
			return err
		}
		_, err := machine.BeginBoot(ctx, tx, machine.Boot{MachineID: "hv", Subject: "hv", Number: 2, Image: "sha256:00",
			File: protocol.BootFile{Duty: protocol.Inspect}})
		return err
	})
	boot := s.boot()
	boot.Boot, boot.Token = 2, s.authority.Token("hv", 2)
	if h, err = joinHost(t.Context(), s.server.URL, boot, fake.New(fake.Options{})); err != nil {
		t.Fatal(err)
	}
	if err := fetch(); !errors.As(err, &refused) {
		t.Errorf("the agent of an inspection got %v", err)
	}
}

// A guest's agent, however it came by its controller's address, is a node's and no hypervisor's.
func TestAGuestDoesNotSpeakAsAHypervisor(t *testing.T) {
	s := newFixture(t)
	for who, want := range map[identity.Agent]int{
		{Node: "c1-node-1", Boot: 1}: http.StatusUnauthorized, {Node: "id-c1-node-1", Boot: 1}: http.StatusUnauthorized,
		{Node: "hv", Boot: 2}: http.StatusGone, // it calls from where it is
	} {
		h, err := newFakeHost(s.server.URL, s.boot(), nil, func(_ *fakeHost, csr, _ string) (string, error) {
			certificate, _, err := s.authority.CertifyAgent(csr, who, time.Now())
			return certificate, err
		})
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"was told of guests": h.call(t.Context(), http.MethodGet, protocol.HostingPath+"?after=-1", nil, &protocol.Hosting{}),
			"was heard": h.call(t.Context(), http.MethodPost, protocol.HostedPath, protocol.HostReport{Boot: 1},
				&protocol.ReportReply{}),
		} {
			if refused := (*refusal)(nil); !errors.As(err, &refused) || refused.status != want {
				t.Errorf("%s %s: %v", who.Node, what, err)
			}
		}
	}
}

// Of guests that are not its own a hypervisor can say what it likes.
func TestAHypervisorIsBelievedOfItsOwnGuestsAlone(t *testing.T) {
	s := newFixture(t)
	own, gone := s.node(1, 2), s.node(2, 1)
	s.update(func(ctx context.Context, tx *core.Tx) error {
		if err := machine.Add(ctx, tx, inventory.Machine{ID: "other", Name: "other", Substrate: "metal", Network: "rack",
			MACs: []string{"52:54:00:00:00:02"}}); err != nil {
			return err
		}
		for _, n := range []substrate.Node{own, gone} {
			g, err := remote.Guest(n)
			if err == nil {
				err = host.AssignGuest(ctx, tx, "hv", g)
			}
			if err != nil {
				return err
			}
		}
		says := func(n substrate.Node, boot int64) protocol.HostedState {
			return protocol.HostedState{Cluster: n.Cluster, Node: n.Node, Boot: boot, Present: true}
		}
		return errors.Join(host.UnassignGuest(ctx, tx, "hv", gone.Node),
			host.SaveReport(ctx, tx, "hv", protocol.HostReport{Boot: 1, Guests: []protocol.HostedState{says(gone, 1)}}),
			host.SaveReport(ctx, tx, "other",
				protocol.HostReport{Boot: 1, Guests: []protocol.HostedState{says(own, 1),
					{Cluster: "c9", Node: "nobodys", Boot: 1, Present: true}}}))
	})
	all, err := s.driver.List(t.Context())
	slices.SortFunc(all, func(a, b substrate.Ref) int { return strings.Compare(a.Node, b.Node) })
	if err != nil || !slices.Equal(all, []substrate.Ref{own.Ref, gone.Ref}) {
		t.Errorf("there are %v: %v", all, err)
	}
}
