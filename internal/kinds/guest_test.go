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
	"muster/internal/drivers/substrate/fake"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/spec"
)

type bootable struct{ oneImage }

func (b bootable) Image(name string) (admission.Image, error) {
	image, err := b.oneImage.Image(name)
	image.Boots = true
	return image, err
}

// hypervisor inspects hosts of four cores; guests get three of them.
type hypervisor struct{ inspector }

func (hypervisor) Inspect(_ context.Context, i substrate.Inspection) (substrate.Inspected, error) {
	f := inventory.Facts{Host: i.Machine.Name, Arch: "amd64", CPUs: 4, Cores: 4, MemoryMiB: 16 << 10}
	for core := range 4 {
		f.Layout = append(f.Layout, inventory.Core{ID: core, CPUs: []int{core}})
	}
	f.NUMA = []inventory.NUMANode{{CPUs: "0-3", MemoryMiB: 16 << 10}}
	return substrate.Inspected{Done: true, Facts: f}, nil
}

// guestProvider is a substrate of guests that notes what it is asked for; some of its hosts refuse.
type guestProvider struct {
	*fake.Substrate
	mu      sync.Mutex
	asked   map[string]substrate.Node // by the guest's name
	refuses string                    // the host that does
	gives   map[string]int            // by the guest's name: the core that it gets for itself, whatever was chosen
}

func (g *guestProvider) Ensure(ctx context.Context, n substrate.Node) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[n.Machine] = n
	if g.refuses != "" && strings.HasPrefix(n.Machine, g.refuses+"-g") {
		return fmt.Errorf("%w: its huge pages are gone", substrate.ErrRefused)
	}
	if core, ok := g.gives[n.Machine]; ok {
		h := *n.Allocation
		h.Cells = slices.Clone(h.Cells)
		h.Cells[0].Cores, h.Share = []int{core}, 1
		n.Allocation = &h
	}
	return g.Substrate.Ensure(ctx, n)
}

// newGuestFixture has places for heads on this host, and hypervisors hv1, hv2 …
func newGuestFixture(t *testing.T, url string, heads, hosts int) (*fixture, *guestProvider) {
	s := newFixture(t, url, heads)
	s.admission.Images = bootable{}
	g := &guestProvider{Substrate: s.substrate, asked: map[string]substrate.Node{}}
	limits := deadlines("vm")
	limits.Quarantine, limits.Forget = 300*time.Millisecond, 200*time.Millisecond
	s.deps.Providers["vm"] = life.Provider{Caps: s.admission.Substrates.Of("vm"), Substrate: g, Inspector: hypervisor{},
		Limits: limits}
	s.update(func(ctx context.Context, tx *core.Tx) error {
		for i := range hosts {
			name := fmt.Sprintf("hv%d", i+1)
			if err := machine.Add(ctx, tx, inventory.Machine{ID: name, Name: name, Substrate: "vm", Hosts: true}); err != nil {
				return err
			}
		}
		return nil
	})
	return s, g
}

// wake has a node look now at what it would see at its next look.
func (s *fixture) wake(nodeID string) {
	s.Helper()
	s.update(func(_ context.Context, tx *core.Tx) error {
		tx.Wake(node.Kind, nodeID)
		return nil
	})
}

// machine is one of the inventory; its zero value if it is not there. Code that writes a machine's facts also writes their
// summary.
func (s *fixture) machine(name string) (m machine.Machine) {
	s.Helper()
	s.view(func(ctx context.Context, tx *core.Tx) error {
		machines, err1 := machine.List(ctx, tx)
		listed, err2 := machine.Page(ctx, tx, machine.Filter{}, "", len(machines))
		for i, one := range machines {
			if err2 == nil && listed[i].Summary != one.Facts.Summary() {
				s.Errorf("the summary of machine %s is %+v; its facts are %+v", one.Name, listed[i].Summary, one.Facts)
			}
			if one.Name == name {
				m = one
			}
		}
		return errors.Join(err1, err2)
	})
	return m
}

func (s *fixture) awaitMachine(name, what string, ok func(machine.Machine) bool) {
	s.Helper()
	if !s.eventually(func() bool { return ok(s.machine(name)) }) {
		m := s.machine(name)
		s.Fatalf("machine %s is not %s: %s (%s), it has %+v", name, what, m.Phase, m.Reason, m.Allocation)
	}
}

func available(m machine.Machine) bool { return m.Phase == machine.Available }

func absent(m machine.Machine) bool { return m.ID == "" }

func (s *fixture) createGuests(name string, nodes int) (id string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		plan, err := s.admission.Create(ctx, tx, spec.Cluster{Name: name, Isolation: spec.IsolationVM, Nodes: nodes})
		if err != nil {
			return err
		}
		c, err := s.admission.CarryOut(ctx, tx, plan, "admin", 0)
		id = c.ID
		return err
	})
	return id
}

func (s *fixture) hasSaid(text string) bool {
	found := false
	s.view(func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 1000})
		found = slices.ContainsFunc(events, func(e core.Event) bool { return strings.Contains(e.Text, text) })
		return err
	})
	return found
}

func TestGuestsComeAndGoWithTheirNodes(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s, g := newGuestFixture(t, url, 1, 1)
		s.run(2)
		s.untilFree(1)
		s.awaitMachine("hv1", "available", available)
		id := s.createGuests("parts", 2)
		s.untilReady(id, 2)
		s.awaitMachine("hv1-g1", "in use", func(m machine.Machine) bool {
			return m.Phase == machine.InUse && m.HolderName == "parts/n1"
		})

		g.mu.Lock()
		n := g.asked["hv1-g1"]
		g.mu.Unlock()
		if n.Allocation == nil || len(n.Allocation.Cells) != 1 || len(n.Allocation.Cells[0].Cores) != 1 || n.CPUs != 1 ||
			n.MemoryMiB != 768 {
			t.Errorf("the driver was asked for %+v with %+v", n, n.Allocation)
		}
		file := n.File
		if a := file.Attachment; len(file.Endpoints) != 1 || file.Endpoints[0] != "https://10.77.0.1:7421" || a == nil ||
			a.NIC != n.MAC.String() || a.MAC != a.NIC ||
			a.Home != "10.77.0.2:/home" || a.Gateway.Address != "10.77.0.1" || a.Gateway.MAC == "" {
			t.Errorf("its boot file has %+v, %+v", file.Endpoints, a)
		}

		s.remove(id)
		s.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool {
			return c.Phase == core.Deleted && c.Receipt != nil &&
				slices.Equal(c.Receipt.Guests, []host.GuestEnd{{Guest: "hv1-g1", Host: "hv1"}, {Guest: "hv1-g2", Host: "hv1"}})
		})
		s.awaitMachine("hv1-g1", "gone", absent)
		s.awaitMachine("hv1-g2", "gone", absent)
		again := s.createGuests("again", 3) // all of it is free
		s.untilReady(again, 3)
	})
}

func TestAGuestThatFailsIsReplacedAndItsHostIsLookedAt(t *testing.T) {
	t.Parallel()
	s, g := newGuestFixture(t, t.TempDir()+"/db", 1, 2)
	s.run(1)
	s.untilFree(1)
	s.awaitMachine("hv1", "available", available)
	s.awaitMachine("hv2", "available", available)
	id := s.createGuests("parts", 1)
	s.untilReady(id, 1)
	var first node.Node
	s.until(id, "ready", func(_ cluster.Cluster, nodes []node.Node) bool { first = nodes[1]; return true })
	inspected := s.machine(first.HostID).Inspections
	g.Die(substrate.Ref{Cluster: id, Node: first.ID, Boot: first.Boot}, "its kernel panicked")
	s.wake(first.ID)
	s.until(id, "whole again on another host", func(c cluster.Cluster, nodes []node.Node) bool {
		return c.Phase == core.Ready && len(nodes) == 2 && nodes[1].ID != first.ID && nodes[1].HostID != first.HostID
	})
	s.awaitMachine(first.Machine, "gone", absent)
	s.awaitMachine(first.HostID, "inspected and back", func(m machine.Machine) bool {
		return m.Phase == machine.Available && m.Inspections > inspected && !m.ToInspect && m.QuarantineReason == ""
	})
	if !s.hasSaid("its guest " + first.Machine + " failed: ") {
		t.Error("nobody told of it at the host")
	}
}

func TestAHostThatRefusesIsPassedBy(t *testing.T) {
	t.Parallel()
	s, g := newGuestFixture(t, t.TempDir()+"/db", 1, 2)
	g.refuses = "hv1"
	s.run(1)
	s.untilFree(1)
	s.awaitMachine("hv1", "available", available)
	s.awaitMachine("hv2", "available", available)
	id := s.createGuests("parts", 1)
	s.untilReady(id, 1)
	s.until(id, "on the other host", func(_ cluster.Cluster, nodes []node.Node) bool { return nodes[1].HostID == "hv2" })
	if !s.hasSaid("its huge pages are gone") {
		t.Error("nobody told why")
	}
}

func onCore(core int) func(machine.Machine) bool {
	return func(m machine.Machine) bool {
		return m.Allocation != nil && slices.Equal(m.Allocation.Cells[0].Cores, []int{core}) && m.Facts.CPUs == 1
	}
}

func TestWhatAHostGivesIsWhatItsGuestHas(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s, g := newGuestFixture(t, url, 3, 1)
		g.gives = map[string]int{"hv1-g1": 3}
		s.run(1)
		s.untilFree(3)
		s.awaitMachine("hv1", "available", available)
		first := s.createGuests("first", 1)
		s.untilReady(first, 1)
		s.awaitMachine("hv1-g1", "on core 3", onCore(3))
		if !s.hasSaid("hv1 gave it other cores or devices") {
			t.Error("nobody told of it")
		}
		s.untilReady(s.createGuests("second", 1), 1)
		s.awaitMachine("hv1-g2", "on the core that was chosen for the first, which nobody has", onCore(1))

		g.mu.Lock()
		asked := g.asked["hv1-g2"].Asked
		g.mu.Unlock()
		if asked.CPUs != 1 || asked.MemoryMiB != 768 || asked.Share != 4 {
			t.Errorf("the driver was told that it asked for %+v", asked)
		}
	})
}

func TestAGuestThatGotWhatAnotherWasPromisedEnds(t *testing.T) {
	t.Parallel()
	s, g := newGuestFixture(t, t.TempDir()+"/db", 2, 2)
	s.run(1)
	s.untilFree(2)
	s.awaitMachine("hv1", "available", available)
	s.awaitMachine("hv2", "available", available)
	g.gives = map[string]int{"hv1-g2": 1}
	s.untilReady(s.createGuests("first", 1), 1)
	s.awaitMachine("hv1-g1", "on core 1", onCore(1))
	second := s.createGuests("second", 1)
	s.untilReady(second, 1)
	s.until(second, "on the other host", func(_ cluster.Cluster, nodes []node.Node) bool { return nodes[1].HostID == "hv2" })
	if !s.hasSaid("hv1 gave it cores or devices that guest hv1-g1 has") {
		t.Error("nobody told why")
	}
	s.awaitMachine("hv1-g2", "gone", absent)
}

func TestAHostThatIsSetApartLosesItsGuests(t *testing.T) {
	t.Parallel()
	s, _ := newGuestFixture(t, t.TempDir()+"/db", 1, 2)
	s.run(1)
	s.untilFree(1)
	s.awaitMachine("hv1", "available", available)
	s.awaitMachine("hv2", "available", available)
	id := s.createGuests("parts", 1)
	s.untilReady(id, 1)
	var host string
	s.until(id, "ready", func(_ cluster.Cluster, nodes []node.Node) bool { host = nodes[1].HostID; return true })
	s.update(func(ctx context.Context, tx *core.Tx) error {
		m, err := machine.Get(ctx, tx, host)
		if err != nil {
			return err
		}
		return machine.Quarantine(ctx, tx, m, "by admin")
	})
	s.until(id, "whole again on another host", func(c cluster.Cluster, nodes []node.Node) bool {
		return c.Phase == core.Ready && len(nodes) == 2 && nodes[1].HostID != host && nodes[1].Phase == core.Ready
	})
}

func TestAHostLeavesServiceWhenItsGuestsHaveGone(t *testing.T) {
	t.Parallel()
	s, _ := newGuestFixture(t, t.TempDir()+"/db", 1, 1)
	s.run(1)
	s.untilFree(1)
	s.awaitMachine("hv1", "available", available)
	id := s.createGuests("parts", 1)
	s.untilReady(id, 1)
	s.update(func(ctx context.Context, tx *core.Tx) error {
		return machine.Want(ctx, tx, "hv1", machine.ForMaintenance)
	})
	s.awaitMachine("hv1", "waiting", func(m machine.Machine) bool {
		return strings.Contains(m.Reason, "waits until its guests, 1 now")
	})
	s.remove(id)
	s.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
	s.awaitMachine("hv1", "out of service", func(m machine.Machine) bool { return m.Phase == machine.Maintenance })
}

// TestHeadsOfLocalClustersServeNobodyElsewhere: on a site with hypervisors, the head of a cluster whose nodes are all on its own
// host needs no rights of the host.
func TestHeadsOfLocalClustersServeNobodyElsewhere(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s, _ := newGuestFixture(t, url, 4, 1)
		local := s.deps.Providers["local"]
		noted := &guestProvider{Substrate: s.substrate, asked: map[string]substrate.Node{}}
		local.Substrate = noted
		s.deps.Providers["local"] = local
		s.run(1)
		s.untilFree(4)
		for isolation, serves := range map[string]bool{spec.IsolationLocal: false, "auto": true} {
			var id string
			s.update(func(ctx context.Context, tx *core.Tx) error {
				plan, err := s.admission.Create(ctx, tx, spec.Cluster{Name: "of-" + isolation, Isolation: isolation, Nodes: 1})
				if err != nil {
					return err
				}
				c, err := s.admission.CarryOut(ctx, tx, plan, "admin", 0)
				id = c.ID
				return err
			})
			s.untilReady(id, 1)
			noted.mu.Lock()
			for _, n := range noted.asked {
				if n.Cluster == id && n.KeepsState && n.ServesHome != serves {
					t.Errorf("with isolation %s the head serves /home elsewhere: %t", isolation, n.ServesHome)
				}
			}
			noted.mu.Unlock()
		}
	})
}
