package domain

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
	"muster/internal/place"
)

var update = flag.Bool("update", false, "write the golden files again")

// take gives a guest the first free cores of these memory nodes, each the same number.
func take(f inventory.Facts, cores, memoryMiB int, nodes ...int) place.Allocation {
	kept, _ := f.Kept()
	h := place.Allocation{Guest: "g1", Share: 1}
	for _, id := range nodes {
		c := place.Cell{NUMA: id, MemoryMiB: memoryMiB}
		for _, core := range f.Layout {
			if core.NUMA == id && !slices.Contains(kept, core.ID) && len(c.Cores) < cores {
				c.Cores = append(c.Cores, core.ID)
			}
		}
		h.Cells = append(h.Cells, c)
	}
	return h
}

// with adds the first devices of a kind that nothing of the host's needs, in the order of their addresses.
func with(h place.Allocation, f inventory.Facts, kind string, number int) place.Allocation {
	for _, d := range f.Devices {
		if d.Kind == kind && d.Host == "" && number > 0 && !slices.Contains(h.Devices, d.PCI) {
			h.Devices, number = append(h.Devices, d.PCI), number-1
		}
	}
	slices.Sort(h.Devices)
	return h
}

func guest(f inventory.Facts, h place.Allocation) Guest {
	return Guest{
		Name: "c1.node-1.7", User: 1000, Facts: f, Allocation: h, KVM: true, Vhost: true,
		Kernel: "/g/kernel", Initramfs: "/g/initramfs", CommandLine: "console=ttyS0",
		Root: Disk{"/g/root", "muster-root"}, Agent: Disk{"/g/agent", "muster-agent"},
		Console: "/g/console.log", NIC: "v-0123456789ab", MAC: substrate.MAC(1, 258),
	}
}

// goldens are guests whose description is kept, each for what is special about it.
func goldens() map[string]Guest {
	all := map[string]Guest{}
	add := func(name, shape string, allocation func(inventory.Facts) place.Allocation) {
		f := shapes.Named(shape)
		all[name] = guest(f, allocation(f))
	}
	add("desktop, one core", "desktop", func(f inventory.Facts) place.Allocation { return take(f, 1, 1024, 0) })
	add("threads", "one-socket-smt", func(f inventory.Facts) place.Allocation { return take(f, 4, 8192, 0) })
	add("no threads", "two-sockets-smt-off", func(f inventory.Facts) place.Allocation { return take(f, 4, 8192, 1) })
	add("two sockets", "two-sockets-smt", func(f inventory.Facts) place.Allocation { return take(f, 8, 32768, 0, 1) })
	add("adjacent siblings", "siblings-adjacent", func(f inventory.Facts) place.Allocation { return take(f, 4, 8192, 0) })
	add("four of eight memory nodes, with caches", "epyc-nps4", func(f inventory.Facts) place.Allocation {
		return take(f, 4, 16384, 0, 1, 4, 5)
	})
	add("sub-NUMA clusters", "xeon-snc2", func(f inventory.Facts) place.Allocation { return take(f, 4, 16384, 0, 1) })
	add("two GPUs with their adapters", "dgx-h100", func(f inventory.Facts) place.Allocation {
		return with(with(take(f, 26, 262144, 0), f, "gpu", 2), f, "hca", 2)
	})
	add("all eight GPUs and adapters", "dgx-a100", func(f inventory.Facts) place.Allocation {
		return with(with(take(f, 8, 65536, 0, 1, 2, 3, 4, 5, 6, 7), f, "gpu", 8), f, "hca", 8)
	})
	add("GPU of another socket", "devices-on-one-socket", func(f inventory.Facts) place.Allocation {
		return with(take(f, 8, 16384, 0), f, "gpu", 1)
	})
	add("virtual functions", "virtual-functions", func(f inventory.Facts) place.Allocation {
		h := take(f, 4, 8192, 1)
		for _, d := range f.Devices {
			if d.Parent != "" && d.Driver == "vfio-pci" {
				h.Devices = append(h.Devices, d.PCI)
			}
		}
		return h
	})
	add("offline cores", "offline-cores", func(f inventory.Facts) place.Allocation { return take(f, 4, 8192, 0) })
	add("sparse memory nodes", "sparse-nodes", func(f inventory.Facts) place.Allocation {
		return take(f, 2, 4096, f.NUMA[0].ID, f.NUMA[len(f.NUMA)-1].ID)
	})
	for _, size := range []int{1 << 10, 2, 1} {
		add(fmt.Sprintf("huge pages, memory in multiples of %d MiB", size), "huge-pages",
			func(f inventory.Facts) place.Allocation {
				return take(f, 2, 4096+size, 0)
			})
	}
	shared := goldenShared()
	all["evaluation host, emulated, cores shared"] = shared
	return all
}

func goldenShared() Guest {
	f := shapes.Named("evaluation-host")
	h := take(f, 2, 768, f.NUMA[0].ID)
	h.Share = 4
	g := guest(f, h)
	g.KVM, g.Vhost = false, false
	return g
}

func file(name string) string {
	return filepath.Join("testdata", strings.NewReplacer(" ", "-", ",", "").Replace(name)+".xml")
}

func TestDescriptionsStayAsTheyAre(t *testing.T) {
	for name, g := range goldens() {
		t.Run(name, func(t *testing.T) {
			d, err := Describe(g)
			if err != nil {
				t.Fatal(err)
			}
			got := []byte("<!-- " + strings.Join(append([]string{name}, d.Warnings...), "\n     ") + " -->\n" + d.XML)
			if *update {
				if err := os.WriteFile(file(name), got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file(name))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is not what it was (-update writes it again):\n%s", file(name), got)
			}
		})
	}
}

func TestDescriptionsAreGoodForLibvirt(t *testing.T) {
	validate, err := exec.LookPath("virt-xml-validate")
	if err != nil {
		t.Skip("skipped: virt-xml-validate is not installed; scripts/setup.sh test installs it")
	}
	for name := range goldens() {
		if said, err := exec.Command(validate, file(name), "domain").CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
	}
}

// TestWhatIsDescribedIsWhatIsHeld reads descriptions with other eyes than those that wrote them.
func TestWhatIsDescribedIsWhatIsHeld(t *testing.T) {
	for name, g := range goldens() {
		t.Run(name, func(t *testing.T) { wantWhatIsHeld(t, g) })
	}
}

// Whatever placement gives a guest of any host can be described.
func TestEveryHoldingIsDescribed(t *testing.T) {
	for _, shape := range shapes.All() {
		t.Run(shape.Name, func(t *testing.T) {
			room := place.Room{Facts: shape.Facts}
			room.Keep, room.KeepMiB = shape.Facts.Kept()
			held := 0
			for cores := 1; cores <= len(shape.Facts.Layout); cores *= 2 {
				for _, devices := range []map[string]int{nil, {"gpu": 1}, {"gpu": 2, "hca": 2}, {"nvme": 1}} {
					ask := place.Guest{CPUs: cores * shape.Facts.Threads(), MemoryMiB: 512 * cores, Devices: devices,
						Locality: place.Preferred, Share: 1}
					allocation, err := place.Hold(room, ask)
					if err != nil {
						continue // this host has no such
					}
					held++
					wantWhatIsHeld(t, guest(shape.Facts, allocation))
				}
			}
			if held == 0 {
				t.Error("it holds nothing")
			}
		})
	}
}

func wantWhatIsHeld(t *testing.T, g Guest) {
	t.Helper()
	described, err := Describe(g)
	if err != nil {
		t.Fatal(err)
	}
	var d libvirtxml.Domain
	if err := d.Unmarshal(described.XML); err != nil {
		t.Fatal(err)
	}
	top := d.CPU.Topology
	if n := top.Sockets * top.Dies * top.Cores * top.Threads; n != int(d.VCPU.Value) || n != len(described.Pins) {
		t.Errorf("%d CPUs, topology of %d, %d pins", d.VCPU.Value, n, len(described.Pins))
	}
	total, next := 0, 0
	for i, cell := range g.Allocation.Cells {
		seen := d.CPU.Numa.Cell[i]
		total += cell.MemoryMiB
		if int(seen.Memory) != cell.MemoryMiB {
			t.Errorf("memory node %d has %d MiB, want %d", i, seen.Memory, cell.MemoryMiB)
		}
		for _, id := range cell.Cores {
			for _, c := range g.Facts.Layout {
				if c.ID != id {
					continue
				}
				for _, cpu := range c.CPUs { // the threads of a core are neighbours in the guest as well
					if described.Pins[next][0] != cpu {
						t.Errorf("virtual CPU %d is pinned to %v, want %d", next, described.Pins[next], cpu)
					}
					next++
				}
			}
		}
		if want := span(next-cpusOf(g, cell), next); seen.CPUs != want {
			t.Errorf("memory node %d has the CPUs %s, want %s", i, seen.CPUs, want)
		}
	}
	if int(d.Memory.Value) != total {
		t.Errorf("%d MiB, want %d", d.Memory.Value, total)
	}
	if len(d.Devices.Hostdevs) != len(g.Allocation.Devices) {
		t.Errorf("%d devices, want %d", len(d.Devices.Hostdevs), len(g.Allocation.Devices))
	}
	wantOwnBuses(t, d)
}

func cpusOf(g Guest, cell place.Cell) int {
	n := 0
	for _, c := range g.Facts.Layout {
		if slices.Contains(cell.Cores, c.ID) {
			n += len(c.CPUs)
		}
	}
	return n
}

// wantOwnBuses sees that no two things are in one slot and that the buses of expanders do not overlap.
func wantOwnBuses(t *testing.T, d libvirtxml.Domain) {
	t.Helper()
	taken := map[string]bool{}
	place := func(a *libvirtxml.DomainAddress) {
		if a == nil {
			return
		}
		at := fmt.Sprintf("bus %d slot %d", *a.PCI.Bus, *a.PCI.Slot)
		if taken[at] {
			t.Errorf("%s is taken twice", at)
		}
		taken[at] = true
	}
	for i, c := range d.Devices.Controllers[1:] {
		if int(*c.Index) != i {
			t.Errorf("controller %d has the index %d", i, *c.Index)
		}
		place(c.Address)
		if c.Model == "pcie-expander-bus" && (*c.PCI.Target.BusNr < 32 || *c.PCI.Target.BusNr > 254) {
			t.Errorf("an expander has bus number %d", *c.PCI.Target.BusNr)
		}
	}
	for _, h := range d.Devices.Hostdevs {
		place(h.Address)
	}
}

func TestADeviceThatTheHostHasNotIsRefused(t *testing.T) {
	f := shapes.Named("desktop")
	for _, h := range []place.Allocation{
		{},
		{Cells: []place.Cell{{NUMA: 7, Cores: []int{0}, MemoryMiB: 1}}},
		{Cells: []place.Cell{{NUMA: 0, Cores: []int{999}, MemoryMiB: 1}}},
		{Cells: []place.Cell{{NUMA: 0, Cores: []int{0}, MemoryMiB: 1}}, Devices: []string{"0000:ff:1f.7"}},
	} {
		if d, err := Describe(guest(f, h)); err == nil {
			t.Errorf("%+v is described as\n%s", h, d.XML)
		}
	}
}
