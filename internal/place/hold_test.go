package place

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
)

// hypervisor is the room of a machine of a shape, without guests.
func hypervisor(f inventory.Facts) Room {
	r := Room{Facts: f}
	r.Keep, r.KeepMiB = f.Kept()
	return r
}

func gib(n int) int { return n << 10 }

// told is a holding in short: "0: cores 0-3, 8192 MiB | 0000:01:00.0".
func told(h Allocation) string {
	var cells []string
	for _, c := range h.Cells {
		cells = append(cells, fmt.Sprintf("%d: cores %s, %d MiB", c.NUMA, inventory.CPUList(c.Cores), c.MemoryMiB))
	}
	return strings.Join(cells, "; ") + " | " + strings.Join(h.Devices, " ")
}

func TestHolds(t *testing.T) {
	two := small(1, []int{gib(8), 4}, []int{gib(8), 4})
	ccx := small(2, []int{gib(64), 4, 4, 4})
	gpus := small(1, []int{gib(8), 4}, []int{gib(8), 4})
	gpus.Devices = []inventory.Device{
		device(1, "gpu", 0, "a"), device(2, "hca", 0, "a"), device(3, "gpu", 1, "b"), device(4, "hca", 1, "b"),
		device(5, "nic", -1, ""),
	}
	guest := func(node int, cores ...int) Allocation {
		return Allocation{Guest: "g1", Cells: []Cell{{NUMA: node, Cores: cores, MemoryMiB: 1024}}, Share: 1}
	}
	for _, c := range []struct {
		name  string
		room  Room
		guest Guest
		want  string // a holding, or what is short and why
	}{
		{"one node where it fits", Room{Facts: two}, Guest{CPUs: 4, MemoryMiB: gib(8)}, "0: cores 0-3, 8192 MiB | "},
		{"the node that has less left", Room{Facts: two, Held: []Allocation{guest(1, 4)}}, Guest{CPUs: 3, MemoryMiB: 1024},
			"1: cores 5-7, 1024 MiB | "},
		{"equal parts on several", Room{Facts: two}, Guest{CPUs: 5, MemoryMiB: gib(6)},
			"0: cores 0-2, 3072 MiB; 1: cores 4-5, 3072 MiB | "},
		{"no parts that are not equal", Room{Facts: two, Held: []Allocation{guest(1, 4, 5)}}, Guest{CPUs: 6, MemoryMiB: 1024},
			"cores: 6 cores asked, 6 cores free, at most 4 cores on one NUMA node; a guest on several needs equal parts of " +
				"cores and memory on each, which are not free"},
		{"two nodes for the sake of memory", Room{Facts: two}, Guest{CPUs: 2, MemoryMiB: gib(9)},
			"0: cores 0, 4608 MiB; 1: cores 4, 4608 MiB | "},
		{"whole cores", Room{Facts: ccx}, Guest{CPUs: 5, MemoryMiB: 1024},
			"threads: 5 CPUs asked: guests get whole cores of the host, of 2 CPUs each; 4 or 6 would work"},
		{"one cache", Room{Facts: ccx, Keep: []int{0, 4}}, Guest{CPUs: 8, MemoryMiB: 1024}, "0: cores 8-11, 1024 MiB | "},
		{"the cache that it fills best", Room{Facts: ccx, Keep: []int{4}}, Guest{CPUs: 6, MemoryMiB: 1024},
			"0: cores 5-7, 1024 MiB | "},
		{"the host's cores stay", Room{Facts: two, Keep: []int{0, 4}}, Guest{CPUs: 7, MemoryMiB: 1024},
			"cores: 7 cores asked, 6 cores free, at most 3 cores on one NUMA node"},
		{"the host's memory stays", Room{Facts: two, KeepMiB: map[int]int{0: 1024}}, Guest{CPUs: 1, MemoryMiB: gib(16)},
			"memory: 16 GiB asked, 15 GiB free on nodes with free cores, at most 8 GiB on one NUMA node"},
		{"a device beside the cores", Room{Facts: gpus}, Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"hca": 1},
			Locality: Required},
			"0: cores 0, 1024 MiB | 0000:02:00.0"},
		{"the second node for the sake of devices", Room{Facts: gpus},
			Guest{CPUs: 2, MemoryMiB: 1024, Devices: map[string]int{"gpu": 2}, Locality: Required},
			"0: cores 0, 512 MiB; 1: cores 4, 512 MiB | 0000:01:00.0 0000:03:00.0"},
		{"a far device rather than a second node", Room{Facts: gpus},
			Guest{CPUs: 2, MemoryMiB: 1024, Devices: map[string]int{"gpu": 2}, Locality: Preferred},
			"0: cores 0-1, 1024 MiB | 0000:01:00.0 0000:03:00.0"},
		{"nothing is beside a device that knows no place", Room{Facts: gpus},
			Guest{CPUs: 2, MemoryMiB: 1024, Devices: map[string]int{"nic": 1}, Locality: Required},
			"locality: 1 nic asked with 2 cores and 1 GiB: they are free, but not on the same NUMA nodes; locality: preferred " +
				"would work"},
		{"a GPU with its HCA", Room{Facts: gpus, Lost: []string{"0000:02:00.0"}},
			Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"gpu": 1, "hca": 1}, GPUDirect: true},
			"1: cores 4, 1024 MiB | 0000:03:00.0 0000:04:00.0"},
		{"no HCA for the second GPU", Room{Facts: gpus, Lost: []string{"0000:02:00.0"}},
			Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"gpu": 2, "hca": 1}, GPUDirect: true},
			"gpu_direct: 2 gpu and 1 hca asked, each GPU with an HCA below its root port: the available ones are not paired " +
				"so; gpu_direct: false would work"},
		{"more devices than there are", Room{Facts: gpus}, Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"gpu": 3}},
			"gpu: 3 gpu asked, the host has 2"},
		{"nothing known", Room{}, Guest{CPUs: 1, MemoryMiB: 1024},
			"facts: the layout of the host's cores and memory is not known: inspect the host"},
		{"a core that guests may share, before a fresh one",
			Room{Facts: two, Held: []Allocation{{Cells: []Cell{{NUMA: 1, Cores: []int{6}, MemoryMiB: 1024}}, Share: 2}}},
			Guest{CPUs: 1, MemoryMiB: 1024, Share: 4}, "1: cores 6, 1024 MiB | "},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := Hold(c.room, c.guest)
			got := told(h)
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAmongEqualsTheMostIsLeftToOthers(t *testing.T) {
	two := small(1, []int{gib(8), 4}, []int{gib(8), 4})
	with := func(f inventory.Facts, devices ...inventory.Device) Room {
		f.Devices = devices
		return Room{Facts: f}
	}
	grouped := func(group string, d inventory.Device) inventory.Device {
		d.Group = group
		return d
	}
	held := func(r Room, share, node, mib int, cores ...int) Room {
		r.Held = []Allocation{{Guest: "g1", Cells: []Cell{{NUMA: node, Cores: cores, MemoryMiB: mib}}, Share: share}}
		return r
	}
	one := small(1, []int{gib(8), 4})
	for _, c := range []struct {
		name  string
		room  Room
		guest Guest
		want  string
	}{
		{"cores", held(with(two), 1, 1, 0, 4), Guest{CPUs: 3, MemoryMiB: 1024}, "1: cores 5-7, 1024 MiB | "},
		{"memory", held(with(two), 1, 1, 1024), Guest{CPUs: 3, MemoryMiB: 1024}, "1: cores 4-6, 1024 MiB | "},
		{"cores that nobody shares yet", held(with(small(1, []int{gib(8), 2, 3})), 2, 0, 0, 2, 3),
			Guest{CPUs: 2, MemoryMiB: 1024, Share: 2}, "0: cores 2-3, 1024 MiB | "},
		{"devices beside the cores", with(two, device(1, "gpu", 0, "a")), Guest{CPUs: 1, MemoryMiB: 1024},
			"1: cores 4, 1024 MiB | "},
		{"and its own are not counted", with(two, device(1, "gpu", 0, "a")),
			Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"gpu": 1}, Locality: Any},
			"0: cores 0, 1024 MiB | 0000:01:00.0"},
		{"the other function of a group", with(one, grouped("1", device(1, "hca", 0, "")), grouped("1", device(2, "hca", 0, "")),
			device(3, "hca", 0, "")),
			Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"hca": 1}}, "0: cores 0, 1024 MiB | 0000:03:00.0"},
		{"another group", with(one, grouped("1", device(1, "hca", 0, "")), grouped("2", device(2, "hca", 0, "")),
			grouped("2", device(3, "hca", 0, "")), grouped("1", device(4, "hca", 0, ""))),
			Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"hca": 2}},
			"0: cores 0, 1024 MiB | 0000:01:00.0 0000:04:00.0"},
		{"a GPU's neighbour", with(one, device(1, "hca", 0, "a"), device(2, "gpu", 0, "a"), device(3, "hca", 0, "b")),
			Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"hca": 1}}, "0: cores 0, 1024 MiB | 0000:03:00.0"},
		{"another GPU's neighbour", with(one, device(1, "gpu", 0, "a"), device(2, "hca", 0, "b"), device(3, "hca", 0, "a"),
			device(4, "gpu", 0, "b")),
			Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"gpu": 1, "hca": 1}},
			"0: cores 0, 1024 MiB | 0000:01:00.0 0000:03:00.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := Hold(c.room, c.guest)
			if err != nil || told(h) != c.want {
				t.Errorf("%s %v\nwant %s", told(h), err, c.want)
			}
		})
	}
}

func TestTheSmallestShareOfACoreCounts(t *testing.T) {
	r := Room{Facts: small(1, []int{gib(8), 1})}
	for i, share := range []int{3, 2, 3, 1} {
		h, err := Hold(r, Guest{CPUs: 1, MemoryMiB: 1024, Share: share})
		if (err == nil) != (i < 2) {
			t.Fatalf("guest %d with share %d: %v", i+1, share, err)
		}
		if err == nil {
			r.Held = append(r.Held, h)
		}
	}
}

func TestGroupsAreGivenToOneGuest(t *testing.T) {
	r := hypervisor(shapes.Named("shared-groups"))
	guest := func(kind string, n int) Guest {
		return Guest{CPUs: 2, MemoryMiB: gib(1), Devices: map[string]int{kind: n}, Locality: Required, Share: 1}
	}
	var given []string
	for range 2 {
		h, err := Hold(r, guest("gpu", 1))
		if err != nil || len(h.Withheld) != 1 || kindOf(r.Facts, h.Withheld[0]) != "other" {
			t.Fatalf("%+v: its audio function is withheld, and no bridge: %v", h, err)
		}
		given = append(given, h.Devices...)
		r.Held = append(r.Held, h)
	}
	for kind, why := range map[string]string{
		"gpu":   "the third is in a group with the root file system's disk",
		"other": "the GPUs' audio functions are in their groups",
		"nvme":  "it is in a group with the host's NIC",
	} {
		var misfit *Misfit
		if h, err := Hold(r, guest(kind, 1)); !errors.As(err, &misfit) || misfit.What != kind {
			t.Errorf("%s: %s, but: %v %v", kind, why, told(h), err)
		}
	}
	h, err := Hold(r, guest("nic", 2))
	if err != nil || len(h.Withheld) != 0 {
		t.Errorf("two ports in one group are one guest's: %+v %v", h, err)
	}
	if reflect.DeepEqual(given[:1], given[1:]) {
		t.Error("the same GPU twice")
	}
}

func kindOf(f inventory.Facts, pci string) string {
	return f.Devices[slices.IndexFunc(f.Devices, func(d inventory.Device) bool { return d.PCI == pci })].Kind
}

func TestPartsOfOneGuestAreOfDifferentAdapters(t *testing.T) {
	r := Room{Facts: small(1, []int{gib(8), 4})}
	for adapter := range 2 {
		whole := device(16*adapter, "hca", 0, "")
		r.Facts.Devices = append(r.Facts.Devices, whole)
		for part := range 4 {
			d := device(16*adapter+1+part, "hca", 0, "")
			d.Parent = whole.PCI
			r.Facts.Devices = append(r.Facts.Devices, d)
		}
	}
	g := Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"hca": 2}}
	for _, want := range []string{"0000:01:00.0 0000:11:00.0", "0000:02:00.0 0000:12:00.0"} {
		h, err := Hold(r, g)
		if err != nil || strings.Join(h.Devices, " ") != want {
			t.Errorf("%v %v, not %s", h.Devices, err, want)
		}
		r.Held = append(r.Held, h)
	}
	g.Devices["hca"] = 1
	r.Held = append(r.Held, Allocation{Devices: []string{"0000:03:00.0"}}) // of four
	if h, err := Hold(r, g); err != nil || h.Devices[0] != "0000:13:00.0" {
		t.Errorf("%v %v: the adapter with fewer guests has more to give", h.Devices, err)
	}
}

func TestBridgesDoNotCloseAGroup(t *testing.T) {
	r := Room{Facts: small(1, []int{gib(8), 1}), Lost: []string{"0000:02:00.0"}}
	r.Facts.Devices = []inventory.Device{device(1, "gpu", 0, ""), device(2, "bridge", 0, "")}
	r.Facts.Devices[1].Group, r.Facts.Devices[1].Host = "1", "its way to the disk"
	if h, err := Hold(r, Guest{CPUs: 1, MemoryMiB: 1024, Devices: map[string]int{"gpu": 1}}); err != nil || len(h.Withheld) > 0 {
		t.Errorf("%+v %v", h, err)
	}
}

func TestADividedAdapterIsGivenInParts(t *testing.T) {
	r := hypervisor(shapes.Named("virtual-functions"))
	parents := map[string]bool{}
	for _, d := range r.Facts.Devices {
		parents[d.Parent] = true
	}
	for range 4 {
		h, err := Hold(r, Guest{CPUs: 2, MemoryMiB: gib(1), Devices: map[string]int{"hca": 1}, Share: 1})
		if err != nil || parents[h.Devices[0]] {
			t.Fatal(told(h), err)
		}
		r.Held = append(r.Held, h)
	}
	if h, err := Hold(r, Guest{CPUs: 2, MemoryMiB: gib(1), Devices: map[string]int{"hca": 1}, Share: 1}); err == nil {
		t.Error(told(h))
	}
}

func TestWithoutIOMMUNoDeviceIsGiven(t *testing.T) {
	r := hypervisor(shapes.Named("no-iommu"))
	_, err := Hold(r, Guest{CPUs: 2, MemoryMiB: gib(1), Devices: map[string]int{"gpu": 1}, Share: 1})
	const want = "iommu: 1 gpu asked, but 2 of the host's 2 have no IOMMU group: switch the IOMMU on in its firmware and for " +
		"its kernel"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if _, err := Hold(r, Guest{CPUs: 2, MemoryMiB: gib(1), Share: 1}); err != nil {
		t.Error(err)
	}
}

func TestCPUsAreInTheGuestsOrder(t *testing.T) {
	f := small(2, []int{gib(8), 2}, []int{gib(8), 2})
	h := Allocation{Cells: []Cell{{NUMA: 0, Cores: []int{1}}, {NUMA: 1, Cores: []int{2, 3}}}}
	if got := h.CPUs(f); !reflect.DeepEqual(got, []int{1, 5, 2, 6, 3, 7}) {
		t.Error(got)
	}
}

func TestManyMemoryNodesAreSearchedByNeighbourhood(t *testing.T) {
	var nodes [][]int
	for range 32 {
		nodes = append(nodes, []int{gib(4), 2})
	}
	r := Room{Facts: small(1, nodes...)}
	g := Guest{CPUs: 32, MemoryMiB: gib(64), Share: 1}
	h, err := Hold(r, g)
	if err != nil || len(h.Cells) != 16 {
		t.Fatal(told(h), err)
	}
	serves(t, r, g, h)
}

func BenchmarkHold(b *testing.B) {
	for name, g := range map[string]Guest{
		"one-node": {CPUs: 16, MemoryMiB: gib(32)},
		"half":     {CPUs: 120, MemoryMiB: gib(200)},
		"gpus": {CPUs: 16, MemoryMiB: gib(64), Devices: map[string]int{"gpu": 2, "hca": 2}, Locality: Required,
			GPUDirect: true},
		"all-gpus": {CPUs: 240, MemoryMiB: gib(800), Devices: map[string]int{"gpu": 8, "hca": 8}, GPUDirect: true,
			Locality: Required},
		"impossible": {CPUs: 4, MemoryMiB: gib(4), Devices: map[string]int{"gpu": 8, "hca": 8}, GPUDirect: true,
			Locality: Required},
		"without-fit": {CPUs: 512, MemoryMiB: gib(4)},
	} {
		r := hypervisor(shapes.Named("dgx-a100")) // 8 NUMA nodes, 256 threads, 16 devices and the disks
		g.Share = 1
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = Hold(r, g)
			}
		})
	}
}
