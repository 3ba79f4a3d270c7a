package place

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
)

func hosts(facts ...inventory.Facts) []Host {
	var all []Host
	for i, f := range facts {
		all = append(all, Host{Name: fmt.Sprintf("hv%d", i+1), Room: Room{Facts: f}})
	}
	return all
}

// where is on which hosts the guests are, in the order in which they were placed.
func where(hosts []Host, placed []Placed) string {
	var names []string
	for _, p := range placed {
		names = append(names, hosts[p.Host].Name)
	}
	return strings.Join(names, " ")
}

func TestHostsAreFilledOneAfterTheOther(t *testing.T) {
	four := small(1, []int{gib(16), 4})
	all := hosts(four, four, four)
	all[1].Room.Held = []Allocation{{Guest: "g", Cells: []Cell{{Cores: []int{0, 1}, MemoryMiB: 1024}}, Share: 1}}
	placed, err := PlaceGuests(Guest{CPUs: 2, MemoryMiB: 1024, Share: 1}, 4, all, nil)
	if err != nil || where(all, placed) != "hv2 hv1 hv1 hv3" {
		t.Error(where(all, placed), err)
	}
	for _, h := range all {
		if len(h.Room.Held) > 1 {
			t.Error("the hosts were changed")
		}
	}
}

func TestAGuestGoesWhereItNeedsFewerMemoryNodes(t *testing.T) {
	all := hosts(small(1, []int{gib(16), 2}, []int{gib(16), 2}), small(1, []int{gib(16), 8}))
	placed, err := PlaceGuests(Guest{CPUs: 4, MemoryMiB: 1024, Share: 1}, 3, all, nil)
	if err != nil || where(all, placed) != "hv2 hv2 hv1" {
		t.Error(where(all, placed), err)
	}
}

func TestAGuestWithoutDevicesLeavesHostsWithDevices(t *testing.T) {
	with, without := small(1, []int{gib(16), 4}), small(1, []int{gib(16), 8})
	with.Devices = []inventory.Device{device(1, "gpu", 0, "a")}
	all := hosts(with, without)
	placed, err := PlaceGuests(Guest{CPUs: 4, MemoryMiB: 1024, Share: 1}, 3, all, nil)
	if err != nil || where(all, placed) != "hv2 hv2 hv1" {
		t.Error(where(all, placed), err)
	}
}

func TestAShortageCountsHostsByReason(t *testing.T) {
	full := small(1, []int{gib(16), 2})
	bare := small(1, []int{gib(16), 4})
	bare.Devices = []inventory.Device{device(1, "gpu", 0, "a")}
	bare.Devices[0].Group = ""
	good := small(1, []int{gib(16), 4})
	good.Devices = []inventory.Device{device(1, "gpu", 0, "a")}
	all := hosts(good, full, bare, full)
	placed, err := PlaceGuests(Guest{CPUs: 4, MemoryMiB: 1024, Devices: map[string]int{"gpu": 1}, Share: 1}, 4, all, nil)
	var short *GuestShortage
	if !errors.As(err, &short) || where(all, placed) != "hv1" {
		t.Fatal(where(all, placed), err)
	}
	const want = "4 asked, 1 fit: 3 hosts are short of cores (hv1: 4 cores asked, 0 cores free), " +
		"1 host is without an IOMMU (hv3: 1 gpu asked, but 1 of the host's 1 have no IOMMU group: switch the IOMMU on in its " +
		"firmware and for its kernel)"
	if err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if _, err := PlaceGuests(Guest{CPUs: 4, MemoryMiB: 1024}, 1, nil, nil); err == nil ||
		err.Error() != "1 asked, 0 fit: there is no hypervisor" {
		t.Error(err)
	}
}

// Guests that are placed one by one, or queue by queue, come to lie as if they were placed at once, and nothing is
// over-committed.
func TestGuestsPlacedInTurnsAreAddedToTheirHosts(t *testing.T) {
	var all []Host
	for _, s := range shapes.All() {
		all = append(all, Host{Name: s.Name, Room: hypervisor(s.Facts)})
	}
	g := Guest{CPUs: 8, MemoryMiB: gib(12), Share: 1}
	at := where(all, must(PlaceGuests(g, 40, all, nil)))
	var inTurns []Placed
	for range 20 {
		for _, p := range must(PlaceGuests(g, 2, all, nil)) {
			p.Allocation.Guest = fmt.Sprint("g", len(inTurns))
			inTurns = append(inTurns, p)
			all[p.Host].Room.Held = append(all[p.Host].Room.Held, p.Allocation)
		}
	}
	if where(all, inTurns) != at {
		t.Errorf("%s\nat once %s", where(all, inTurns), at)
	}
	for _, h := range all {
		if err := h.Room.Check(); err != nil {
			t.Errorf("%s: %v", h.Name, err)
		}
	}
}

func must(placed []Placed, err error) []Placed {
	if err != nil {
		panic(err)
	}
	return placed
}

func BenchmarkPlace1000GuestsOn1000Hosts(b *testing.B) {
	var all []Host
	for i := range 1000 {
		all = append(all, Host{Name: fmt.Sprint("hv", i), Room: hypervisor(shapes.Named("dgx-a100"))})
	}
	g := Guest{CPUs: 32, MemoryMiB: gib(64), Devices: map[string]int{"gpu": 1, "hca": 1}, Locality: Required, GPUDirect: true,
		Share: 1}
	for b.Loop() {
		if _, err := PlaceGuests(g, 1000, all, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPlacesOfGuestsAreLookedForSoLongOnly(t *testing.T) {
	four := small(1, []int{gib(16), 4})
	all, g := hosts(four, four, four), Guest{CPUs: 2, MemoryMiB: 1024, Share: 1}
	want := where(all, must(PlaceGuests(g, 6, all, nil)))
	for steps := 0; ; steps++ {
		placed, err := PlaceGuests(g, 6, all, NewLooks(steps))
		if err == nil {
			if got := where(all, placed); got != want || steps < 6*8 {
				t.Errorf("with %d steps they are on %s, want %s", steps, got, want)
			}
			return
		}
		if !errors.Is(err, ErrLooks) || placed != nil {
			t.Fatalf("with %d steps: %v, %v", steps, placed, err)
		}
	}
}
