package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

const onePool = `
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: service}
classes:
  - {name: local, select: ["substrate = local"]}
  - {name: service, select: ["substrate = local"]}
  - {name: metal, select: ["substrate = metal"]}
  - {name: parts, select: ["substrate = metal"], hypervisor: true, vm: {cpus: 1, memory: 768MiB}}
`

// rackImages has the image that makes hypervisors, too.
type rackImages struct{ bootable }

func (r rackImages) Image(name string) (admission.Image, error) {
	if name == inventory.HypervisorImage {
		return admission.Image{Name: name, Digest: "sha256:01", Arch: "amd64", Boots: true}, nil
	}
	return r.bootable.Image(name)
}

// rack is the machines that may be hypervisors: their power, and the agents of those that are.
type rack struct {
	*guestProvider
	db *core.Store

	mu     sync.Mutex
	on     map[string]int64  // machine → number of its boot as a hypervisor
	dead   map[string]bool   // those that never come up
	silent map[string]bool   // those whose agents say nothing
	told   map[string]int64  // machine → number of the boot whose agent has reported
	asks   []string          // nodes that wait for news of what is under way
	ends   map[string]int    // times that a machine was switched off
	slow   bool              // each guest is under way when it is asked for first
	lives  map[string]string // guest → host to which it has moved
}

func (r *rack) Ensure(ctx context.Context, n substrate.Node) error {
	r.guestProvider.mu.Lock()
	_, asked := r.asked[n.Machine]
	r.asked[n.Machine] = n
	r.guestProvider.mu.Unlock()
	if r.slow && !asked {
		r.mu.Lock()
		r.asks = append(r.asks, n.Node)
		r.mu.Unlock()
		return fmt.Errorf("%w: its host fetches its image", substrate.ErrUnderway)
	}
	return r.guestProvider.Ensure(ctx, n)
}

func (r *rack) Host(_ context.Context, m inventory.Machine, number int64) (string, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on[m.Name] = number
	return "is switched on", "", nil
}

// End also ends the guests.
func (r *rack) End(_ context.Context, m inventory.Machine) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, on := r.on[m.Name]; on {
		r.ends[m.Name]++
	}
	delete(r.on, m.Name)
	delete(r.silent, m.Name)
	r.guestProvider.mu.Lock()
	defer r.guestProvider.mu.Unlock()
	for guest := range r.asked {
		moved, has := r.lives[guest]
		if has && moved == m.Name || !has && strings.HasPrefix(guest, m.Name+"-g") {
			r.DieWithMachine(guest)
		}
	}
	return nil
}

var errSilent = errors.New("its hypervisor is silent")

// Remove proves nothing while the guest's host is on and silent.
func (r *rack) Remove(ctx context.Context, ref substrate.Ref) error {
	r.mu.Lock()
	r.guestProvider.mu.Lock()
	for guest, n := range r.asked {
		for host := range r.silent {
			if _, on := r.on[host]; on && n.Node == ref.Node && strings.HasPrefix(guest, host+"-g") {
				r.guestProvider.mu.Unlock()
				r.mu.Unlock()
				return errSilent
			}
		}
	}
	r.guestProvider.mu.Unlock()
	r.mu.Unlock()
	return r.guestProvider.Remove(ctx, ref)
}

// play has the agents of hypervisors report until ctx ends: news at once. As the monitor does it wakes who waits for what they
// say.
func (r *rack) play(ctx context.Context) error {
	var last time.Time
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		r.mu.Lock()
		speak, asks := map[string]int64{}, r.asks
		r.asks = nil
		for host, number := range r.on {
			if !r.dead[host] && !r.silent[host] {
				speak[host] = number
			}
		}
		r.mu.Unlock()
		if len(asks) == 0 && maps.Equal(speak, r.told) && time.Since(last) < 100*time.Millisecond {
			continue
		}
		last = time.Now()
		err := r.db.Update(ctx, func(tx *core.Tx) error {
			if err := host.Listen(ctx, tx, "rack", "test"); err != nil {
				return err
			}
			for _, nodeID := range asks {
				tx.Wake(node.Kind, nodeID)
			}
			for hostID, number := range speak {
				if r.told[hostID] != number {
					tx.Wake(machine.Kind, hostID)
				}
				if err := host.SaveReport(ctx, tx, hostID, protocol.HostReport{Boot: number, Revision: 1 << 40}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
		r.told = speak
	}
	return nil
}

// newRackFixture has places for heads on this host, and machines r1, r2 … that may carry a node each, or guests.
func newRackFixture(t *testing.T, url string, heads, machines int, change func(metal *substrate.Deadlines)) (*fixture, *rack) {
	s, g := newGuestFixture(t, url, heads, 0)
	site := filepath.Join(t.TempDir(), "site.yaml")
	if err := os.WriteFile(site, []byte(onePool), 0o600); err != nil {
		t.Fatal(err)
	}
	catalogue, err := inventory.ReadCatalogue(site)
	if err != nil {
		t.Fatal(err)
	}
	catalogue.Acceptance = inventory.Acceptance{}
	s.admission.Catalogue, s.admission.Images = catalogue, rackImages{}
	r := &rack{guestProvider: g, db: s.db, on: map[string]int64{}, told: map[string]int64{}, dead: map[string]bool{},
		silent: map[string]bool{}, ends: map[string]int{}}
	guests := s.deps.Providers["vm"]
	guests.Substrate, guests.Emulated = r, guests.Limits
	s.deps.Providers["vm"] = guests
	limits := deadlines("metal")
	limits.Idle, limits.Quarantine, limits.Forget = 200*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond
	if change != nil {
		change(&limits)
	}
	s.deps.Providers["metal"] = life.Provider{Caps: s.admission.Substrates.Of("metal"), Substrate: s.substrate,
		Inspector: hypervisor{}, HypervisorBooter: r, Limits: limits}
	s.update(func(ctx context.Context, tx *core.Tx) error {
		err := network.Put(ctx, tx, inventory.Network{Name: "rack", Interface: "br0",
			Address: netip.MustParsePrefix("10.78.0.1/16")})
		for i := range machines {
			name := fmt.Sprintf("r%d", i+1)
			err = errors.Join(err, machine.Add(ctx, tx, inventory.Machine{ID: name, Name: name, Substrate: "metal",
				Network: "rack", MACs: []string{fmt.Sprintf("52:54:00:00:00:%02x", i)}}))
		}
		return err
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.play(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s, r
}

// untilWhole waits until machines are free, each for a node.
func (s *fixture) untilWhole(names ...string) {
	s.Helper()
	for _, name := range names {
		s.awaitMachine(name, "a free whole machine", machine.Machine.CanHost)
	}
}

// settled waits until all has been inspected.
func (s *fixture) settled(heads int, machines ...string) {
	s.Helper()
	s.untilWhole(machines...)
	if !s.eventually(func() bool { return s.freeNow() == heads }) {
		s.Fatalf("%d places of heads did not become free", heads)
	}
}

func (s *fixture) createOn(isolation, name string, nodes int) (id string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		plan, err := s.admission.Create(ctx, tx, spec.Cluster{Name: name, Isolation: isolation, Nodes: nodes})
		if err != nil {
			return err
		}
		c, err := s.admission.CarryOut(ctx, tx, plan, "admin", 0)
		id = c.ID
		return err
	})
	return id
}

func working(m machine.Machine) bool { return m.HostsOnDemand() && m.Phase == machine.InUse }

func TestAMachineTurnsIntoAHypervisorAndBack(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s, r := newRackFixture(t, url, 2, 2, nil)
		s.run(2)
		s.settled(2, "r1", "r2")
		parts := s.createGuests("parts", 2)
		s.untilReady(parts, 2)
		s.awaitMachine("r1", "a hypervisor", working)
		if m := s.machine("r2"); m.Hosts {
			t.Error("r2 became a hypervisor, though r1 had room for both guests")
		}
		whole := s.createOn(spec.IsolationMetal, "whole", 1) // from the same pool
		s.untilReady(whole, 1)
		s.awaitMachine("r2", "in use", func(m machine.Machine) bool { return m.HolderName == "whole/n1" && !m.Hosts })
		s.remove(parts)
		s.untilWhole("r1")
		r.mu.Lock()
		ends := r.ends["r1"]
		r.mu.Unlock()
		if ends != 1 {
			t.Errorf("the machine was switched off %d times", ends)
		}
		for _, text := range []string{"becomes a hypervisor, for 2 guests", "is a hypervisor", "was without guests for 200ms",
			"was switched off and seen off", "is a whole machine again"} {
			if !s.hasSaid(text) {
				t.Errorf("nobody was told that it %s", text)
			}
		}
		s.scale(whole, 2)
		s.untilReady(whole, 2)
	})
}

func TestASilentHypervisorIsSwitchedOffAndItsGuestsAreReplaced(t *testing.T) {
	t.Parallel()
	s, r := newRackFixture(t, t.TempDir()+"/db", 1, 2, func(l *substrate.Deadlines) { l.Silence = 2 * time.Second })
	s.run(1)
	s.settled(1, "r1", "r2")
	id := s.createGuests("parts", 1)
	s.untilReady(id, 1)
	var first node.Node
	s.until(id, "ready", func(_ cluster.Cluster, nodes []node.Node) bool { first = nodes[1]; return true })
	r.mu.Lock()
	r.silent[first.HostID] = true
	r.mu.Unlock()
	s.until(id, "whole again on another host", func(c cluster.Cluster, nodes []node.Node) bool {
		return c.Phase == core.Ready && len(nodes) == 2 && nodes[1].ID != first.ID && nodes[1].HostID != first.HostID &&
			nodes[1].Phase == core.Ready
	})
	s.awaitMachine(first.Machine, "gone", absent)
	s.untilWhole(first.HostID)
	if !s.hasSaid("its agent was silent for") {
		t.Error("nobody told why")
	}
}

func TestAMachineThatDoesNotBecomeAHypervisorIsPassedBy(t *testing.T) {
	t.Parallel()
	s, r := newRackFixture(t, t.TempDir()+"/db", 1, 2, func(l *substrate.Deadlines) { l.Inspection = 300 * time.Millisecond })
	r.dead["r1"] = true
	s.run(1)
	s.settled(1, "r1", "r2")
	id := s.createGuests("parts", 1)
	s.untilReady(id, 1)
	s.until(id, "on the other host", func(_ cluster.Cluster, nodes []node.Node) bool { return nodes[1].HostID == "r2" })
	if !s.hasSaid("did not become a hypervisor within") {
		t.Error("nobody told why")
	}
	s.untilWhole("r1")
}

func TestAHypervisorThatRefusesIsPassedBy(t *testing.T) {
	t.Parallel()
	s, r := newRackFixture(t, t.TempDir()+"/db", 1, 2, nil)
	r.refuses, r.slow = "r1", true
	s.run(1)
	s.settled(1, "r1", "r2")
	id := s.createGuests("parts", 1)
	s.untilReady(id, 1)
	s.until(id, "on the other host", func(_ cluster.Cluster, nodes []node.Node) bool { return nodes[1].HostID == "r2" })
	s.untilWhole("r1")
}

func TestControllersThatComeAndGoTurnAMachineAllTheSame(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s, r := newRackFixture(t, url, 1, 1, nil)
		s.byShortLives("inspected", func() bool { return s.machine("r1").CanHost() && s.freeNow() == 1 })
		id := s.createGuests("parts", 1)
		s.byShortLives("a hypervisor", func() bool { return working(s.machine("r1")) && s.phaseOf(id) == core.Ready })
		s.remove(id)
		s.byShortLives("a whole machine again", func() bool { return s.machine("r1").CanHost() })
		if v := r.Violations(); len(v) > 0 {
			t.Error(v)
		}
	})
}

// byShortLives has controllers that live for a moment each, a little longer each time, bring something about.
func (s *fixture) byShortLives(what string, ok func() bool) {
	s.Helper()
	for life, end := 10*time.Millisecond, time.Now().Add(5*time.Minute); !ok(); life += 5 * time.Millisecond {
		if time.Now().After(end) {
			s.dump()
			s.Fatalf("not %s", what)
		}
		stop := s.run(1)
		time.Sleep(life)
		stop()
	}
}

// freeNow counts the free places of heads.
func (s *fixture) freeNow() (n int) {
	s.view(func(ctx context.Context, tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		n = len(slices.DeleteFunc(machines, func(m machine.Machine) bool { return m.Substrate != "local" || !m.Free() }))
		return err
	})
	return n
}

func (s *fixture) phaseOf(clusterID string) (p core.Phase) {
	s.view(func(ctx context.Context, tx *core.Tx) error {
		c, err := cluster.Get(ctx, tx, clusterID)
		p = c.Phase
		return err
	})
	return p
}
