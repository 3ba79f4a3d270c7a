package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/place"
	"muster/internal/protocol"
	"muster/internal/spec"
)

func addHost(t *testing.T, s *core.Store, id string) {
	t.Helper()
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		return machine.Add(ctx, tx, inventory.Machine{ID: id, Name: id, Substrate: "vm", Hosts: true})
	})
}

// guest holds cores and devices of a host.
func guest(name, hostID string, share int, cores []int, devices ...string) host.Guest {
	return host.Guest{
		Machine: inventory.Machine{ID: "id-" + name, Name: name, Substrate: "vm", Host: hostID,
			Facts: inventory.Facts{CPUs: len(cores)}},
		Allocation: place.Allocation{Guest: name, Share: share, Cells: []place.Cell{{NUMA: 0, Cores: cores, MemoryMiB: 1024}},
			Devices: devices},
	}
}

// withheld is a guest that is given nothing and keeps a device from others.
func withheld(name, device string) host.Guest {
	g := guest(name, "hv", 1, nil)
	g.Allocation.Withheld = []string{device}
	return g
}

// admit makes a guest with its node.
func admit(ctx context.Context, tx *core.Tx, g host.Guest, slot int) error {
	if err := host.AddGuest(ctx, tx, g, "for a test"); err != nil {
		return err
	}
	name := fmt.Sprintf("n%d", slot)
	if err := cluster.AddSeat(ctx, tx, "c1", cluster.Seat{Name: name, Slot: slot}); err != nil {
		return err
	}
	return node.Add(ctx, tx, node.Node{ID: "node-" + g.Name, Cluster: "c1", Name: name, Role: protocol.Compute, Queue: "main",
		Class: "vm", MachineID: g.ID, Machine: g.Name,
		VM: &spec.VM{CPUs: g.Facts.CPUs, Memory: "1GiB"}})
}

func TestAGuestIsAMachineWithAHost(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		kindstest.AddCluster(t, s, "c1", "hello")
		g := guest("hv-g1", "hv", 1, []int{2, 3}, "0000:41:00.0")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return admit(ctx, tx, g, 3) })
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, "hv-g1")
			if err != nil || m.Phase != machine.Reserved || m.Host != "hv" || m.HostName != "hv" || m.Hosts ||
				m.HolderName != "hello/n3" || m.Free() {
				t.Errorf("guest %+v: %v", m, err)
			}
			if m.Allocation == nil || !cmp.Equal(*m.Allocation, g.Allocation) {
				t.Errorf("holds %+v, want %+v", m.Allocation, g.Allocation)
			}
			h, err := machine.Get(ctx, tx, "hv")
			if err != nil || !h.Hosts || h.Host != "" || h.Allocation != nil || h.Free() {
				t.Errorf("host %+v: %v", h, err)
			}
			n, err := node.Get(ctx, tx, "node-hv-g1")
			if err != nil || n.HostID != "hv" || n.VM == nil || n.VM.CPUs != 2 || n.Whole {
				t.Errorf("node %+v: %v", n, err)
			}
			clusters, err := host.WithGuests(ctx, tx)
			if err != nil || !slices.Equal(clusters, []string{"c1"}) {
				t.Errorf("clusters with guests %v: %v", clusters, err)
			}
			return nil
		})
	})
}

func TestWhatOneGuestHoldsNoOtherGets(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		addHost(t, s, "other")
		kindstest.AddCluster(t, s, "c1", "hello")
		add := func(g host.Guest) error {
			return s.Update(t.Context(), func(tx *core.Tx) error { return host.AddGuest(t.Context(), tx, g, "for a test") })
		}
		for _, c := range []struct {
			what string
			g    host.Guest
			fits bool
		}{
			{"a free part", guest("a", "hv", 1, []int{0, 1}, "0000:41:00.0"), true},
			{"a core that is held", guest("b", "hv", 1, []int{1, 2}), false},
			{"a device that is held", guest("c", "hv", 1, []int{3}, "0000:41:00.0"), false},
			{"a device that is withheld", withheld("j", "0000:41:00.1"), true},
			{"the same for somebody", guest("k", "hv", 1, []int{6}, "0000:41:00.1"), false},
			{"the same of another host", guest("d", "other", 1, []int{0, 1}, "0000:41:00.0"), true},
			{"a core for two", guest("e", "hv", 2, []int{4}), true},
			{"its other half", guest("f", "hv", 2, []int{4}), true},
			{"a third half", guest("g", "hv", 2, []int{4}), false},
			{"a shared core for itself", guest("h", "hv", 1, []int{4}), false},
			{"a part of a guest", guest("i", "id-a", 1, []int{0}), false},
		} {
			if err := add(c.g); (err == nil) != c.fits {
				t.Errorf("%s: %v", c.what, err)
			}
		}
	})
}

func TestAHypervisorCarriesNoNode(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		kindstest.AddCluster(t, s, "c1", "hello")
		err := s.Update(t.Context(), func(tx *core.Tx) error {
			return kindstest.AddNode(t.Context(), tx, "n1", "c1", "n1", 3, "hv")
		})
		if err == nil || !strings.Contains(err.Error(), "carries no node") {
			t.Error(err)
		}
	})
}

func TestOfGuestsThatRaceForTheLastPartOneHasIt(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		kindstest.AddCluster(t, s, "c1", "hello")
		const racers = 6
		results := make([]error, racers)
		var all sync.WaitGroup
		for i := range racers {
			all.Go(func() {
				g := guest(fmt.Sprintf("g%d", i), "hv", 1, []int{i}, "0000:41:00.0") // a core each, and the only device
				results[i] = s.Update(t.Context(), func(tx *core.Tx) error { return admit(t.Context(), tx, g, i+3) })
			})
		}
		all.Wait()
		won := 0
		for _, err := range results {
			if err == nil {
				won++
			}
		}
		if won != 1 {
			t.Errorf("%d of %d have it: %v", won, racers, results)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			guests, err := machine.GuestsOn(ctx, tx, "hv")
			if err != nil || len(guests) != 1 {
				t.Errorf("guests %v: %v", guests, err)
			}
			return nil
		})
	})
}

func TestANodeThatLeavesGivesItsPartBack(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		kindstest.AddCluster(t, s, "c1", "hello")
		first, second := guest("g1", "hv", 1, []int{0}, "0000:41:00.0"), guest("g2", "hv", 1, []int{0}, "0000:41:00.0")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return admit(ctx, tx, first, 3) })
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			n, err := node.Get(ctx, tx, "node-g1")
			if err != nil {
				return err
			}
			return node.LeaveMachine(ctx, tx, n)
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return admit(ctx, tx, second, 4) })
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, "g1")
			if err != nil || m.Allocation != nil {
				t.Errorf("it still holds %v: %v", m.Allocation, err)
			}
			now, err := host.GuestsIn(ctx, tx, "c1")
			if err != nil || len(now) != 1 || now["id-g2"].HostName != "hv" || now["id-g2"].Allocation == nil {
				t.Errorf("the cluster has %v: %v", now, err)
			}
			ends, err := host.GuestsOf(ctx, tx, "c1")
			if err != nil || !slices.Equal(ends, []host.GuestEnd{{Guest: "g1", Host: "hv"}, {Guest: "g2", Host: "hv"}}) {
				t.Errorf("the cluster had %v: %v", ends, err)
			}
			return nil
		})
	})
}

func TestAHostThatFailedAGuestIsAvoidedForAWhileByItsCluster(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		kindstest.AddCluster(t, s, "c1", "hello")
		kindstest.AddCluster(t, s, "c2", "other")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return admit(ctx, tx, guest("g1", "hv", 1, []int{0}), 3)
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return host.NoteFailure(ctx, tx, "node-g1") })
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			for cluster, want := range map[string]bool{"c1": true, "c2": false} {
				if avoided, err := host.AvoidedHosts(ctx, tx, cluster, 1<<40); err != nil || avoided["hv"] != want {
					t.Errorf("cluster %s shuns %v: %v", cluster, avoided, err)
				}
			}
			if avoided, err := host.AvoidedHosts(ctx, tx, "c1", -1<<40); err != nil || len(avoided) > 0 {
				t.Errorf("long after: %v: %v", avoided, err)
			}
			return nil
		})
	})
}

func TestAGuestThatGetsAnotherPartLeavesTheFirst(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		for _, g := range []host.Guest{guest("a", "hv", 1, []int{0, 1}, "0000:41:00.0"), guest("b", "hv", 2, []int{4}),
			withheld("c", "0000:41:00.1")} {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return host.AddGuest(ctx, tx, g, "for a test")
			})
		}
		holder := func(g host.Guest) (name string) {
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				name, err = host.Holder(ctx, tx, g)
				return err
			})
			return name
		}
		for _, c := range []struct {
			what string
			part host.Guest
			want string
		}{
			{"its own", guest("a", "hv", 1, []int{0, 1}, "0000:41:00.0"), ""},
			{"cores that are free", guest("a", "hv", 1, []int{2, 3}), ""},
			{"the other half of a core", guest("a", "hv", 2, []int{4}), ""},
			{"a core of another's for itself", guest("a", "hv", 1, []int{3, 4}), "b"},
			{"a device that is withheld", guest("a", "hv", 1, []int{2}, "0000:41:00.1"), "c"},
		} {
			if got := holder(c.part); got != c.want {
				t.Errorf("%s: is %q's, want %q", c.what, got, c.want)
			}
		}
		moved := guest("a", "hv", 1, []int{2, 3})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return host.SetAllocation(ctx, tx, moved) })
		if got := holder(guest("d", "hv", 1, []int{0, 1}, "0000:41:00.0")); got != "" {
			t.Errorf("what it left is still %q's", got)
		}
		if got := holder(guest("d", "hv", 1, []int{3})); got != "a" {
			t.Errorf("what it has is %q's", got)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, "a")
			if err == nil && !cmp.Equal(*m.Allocation, moved.Allocation) {
				t.Errorf("it holds %+v", m.Allocation)
			}
			return err
		})
	})
}
