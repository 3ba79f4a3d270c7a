package place

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
)

// operator does to a hypervisor whatever can come: guests come and go, devices fail and recover, cores go offline and
// come back.
type operator struct {
	*testing.T
	roll     dice
	whole    Room // as it was delivered
	now      Room
	refused  []Guest // that the whole machine could carry
	accepted int
}

func (o *operator) step() {
	switch o.roll(8) {
	default:
		o.allocate()
	case 4, 5:
		if n := len(o.now.Held); n > 0 {
			at := o.roll(n)
			o.now.Held = slices.Delete(slices.Clone(o.now.Held), at, at+1)
		}
	case 6:
		if devices := o.now.Facts.Devices; len(devices) > 0 {
			pci := devices[o.roll(len(devices))].PCI
			if at := slices.Index(o.now.Lost, pci); at >= 0 {
				o.now.Lost = slices.Delete(slices.Clone(o.now.Lost), at, at+1)
			} else {
				o.now.Lost = append(slices.Clone(o.now.Lost), pci)
			}
		}
	case 7:
		layout := slices.Clone(o.now.Facts.Layout)
		switch at := o.roll(len(layout)); {
		case o.roll(3) == 0:
			layout = o.whole.Facts.Layout
		case len(layout[at].CPUs) > 1 && o.roll(2) == 0:
			layout[at].CPUs = layout[at].CPUs[:1]
		case len(layout) > 1:
			layout = slices.Delete(layout, at, at+1)
		}
		o.now.Facts.Layout = layout
	}
	if err := o.now.Check(); err != nil {
		o.Fatalf("%v\nin %+v", err, o.now)
	}
	if n := len(o.now.Held); n > 0 {
		o.again(o.roll(n))
	}
}

// again asks whether a guest that is there could have the same once more: unless something of it has failed.
func (o *operator) again(at int) {
	h, without := o.now.Held[at], o.now
	without.Held = slices.Delete(slices.Clone(without.Held), at, at+1)
	if err := without.Grants(h); (err == nil) != intact(o.now, h) {
		o.Fatalf("%+v may be had again: %v\nin %+v", h, err, o.now)
	}
}

// intact says that nothing has failed of what a guest has, nor of what reaches its devices or carries them.
func intact(r Room, h Allocation) bool {
	for _, c := range h.Cells {
		if len(c.CPUs(r.Facts)) != len(c.Cores)*r.Facts.Threads() {
			return false
		}
	}
	parent := map[string]string{}
	for _, d := range r.Facts.Devices {
		parent[d.PCI] = d.Parent
	}
	for _, pci := range slices.Concat(h.Devices, h.Withheld) {
		carried := slices.Contains(h.Devices, pci) && slices.Contains(r.Lost, parent[pci])
		if slices.Contains(r.Lost, pci) || carried {
			return false
		}
	}
	return true
}

func (o *operator) allocate() {
	g := o.guest()
	h, err := Hold(o.now, g)
	if err != nil {
		if _, err := Hold(o.whole, g); err == nil {
			o.refused = append(o.refused, g)
		}
		return
	}
	serves(o, o.now, g, h)
	if err := o.now.Grants(h); err != nil {
		o.Fatalf("%+v was chosen and is not granted: %v\nin %+v", h, err, o.now)
	}
	if n := len(o.now.Held); n > 0 && o.roll(4) == 0 {
		less := o.now
		at := o.roll(n)
		less.Held = slices.Delete(slices.Clone(less.Held), at, at+1)
		if _, err := Hold(less, g); err != nil {
			o.Fatalf("%+v fits, but not without %+v: %v\nin %+v", g, o.now.Held[at], err, o.now)
		}
	}
	o.accepted++
	h.Guest = fmt.Sprint("g", o.accepted)
	o.now.Held = append(slices.Clone(o.now.Held), h)
}

// guest is as large as a random part of the machine.
func (o *operator) guest() Guest {
	f := o.whole.Facts
	part := []int{1, 1, 2, 4, 8, 16}[o.roll(6)]
	g := Guest{
		CPUs:      o.now.Facts.Threads() * (1 + o.roll(max(1, len(f.Layout)/part))),
		MemoryMiB: 1 + o.roll(f.MemoryMiB/part),
		Locality:  []Locality{Required, Preferred, Any}[o.roll(3)],
		GPUDirect: o.roll(2) == 0,
		Share:     []int{1, 1, 1, 2, 4}[o.roll(5)],
		Devices:   map[string]int{},
	}
	for _, kind := range []string{"gpu", "hca", "nic", "nvme", "other"} {
		if n := min(f.Count(kind), 1+o.roll(4)); n > 0 && o.roll(3) == 0 {
			g.Devices[kind] = n
		}
	}
	return g
}

// leave ends all guests and repairs all.
func (o *operator) leave() {
	o.now.Held = nil
	o.now.Lost = nil
	o.now.Facts.Layout = o.whole.Facts.Layout
	if before, after := newStock(o.whole, 1), newStock(o.now, 1); !reflect.DeepEqual(before, after) {
		o.Fatalf("left is %+v\nof %+v", after, before)
	}
	for _, g := range o.refused {
		if _, err := Hold(o.now, g); err != nil {
			o.Fatalf("%+v does not fit although all is free again: %v", g, err)
		}
	}
}

// MUSTER_SEQUENCES is how many a shape, instead of 10,000 in all.
func TestTenThousandSequencesNeverOverCommitAndNeverLeak(t *testing.T) {
	all := shapes.All()
	sequences := 10_000 / len(all)
	if testing.Short() {
		sequences /= 10
	}
	if text := os.Getenv("MUSTER_SEQUENCES"); text != "" {
		var err error
		if sequences, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			accepted, refused := 0, 0
			for seed := range sequences {
				whole := hypervisor(s.Facts)
				o := operator{T: t, roll: rand.New(rand.NewPCG(uint64(seed), 8)).IntN, whole: whole, now: whole}
				for range 4 + o.roll(24) {
					o.step()
				}
				o.leave()
				accepted += o.accepted
				refused += len(o.refused)
			}
			t.Logf("%d guests, %d refused until all was free", accepted, refused)
			if accepted == 0 || refused == 0 {
				t.Error("nothing was proven")
			}
		})
	}
}

// A guest without devices lies on so few NUMA nodes as counting allows: on k nodes if k of them have the larger part of
// its cores and memory, and surely not on fewer than its cores and memory need.
func TestGuestsLieOnAsFewMemoryNodesAsPossible(t *testing.T) {
	for _, s := range shapes.All() {
		t.Run(s.Name, func(t *testing.T) {
			r := hypervisor(s.Facts)
			empty := newStock(r, 1)
			exact := 0
			for cores := 1; cores <= len(s.Facts.Layout); cores++ {
				for _, memory := range []int{gib(1), cores * 2000, gib(24), s.Facts.MemoryMiB / 2} {
					g := Guest{CPUs: cores * s.Facts.Threads(), MemoryMiB: memory, Share: 1}
					possible := 0
					for k := 1; k <= cores && possible == 0; k++ {
						able := 0
						for _, n := range s.Facts.NUMA {
							if usable(r, n) >= (cores+k-1)/k && n.MemoryMiB-r.KeepMiB[n.ID] >= (memory+k-1)/k+2 {
								able++
							}
						}
						if able >= k {
							possible = k
						}
					}
					h, err := Hold(r, g)
					if possible > 0 && (err != nil || len(h.Cells) > possible) {
						t.Fatalf("%d cores and %d MiB: %s %v, but %d nodes would do", cores, memory, told(h), err, possible)
					}
					if err != nil {
						continue
					}
					serves(t, r, g, h)
					if len(h.Cells) == 1 {
						exact++
					}
					for _, n := range empty.nodes {
						if len(h.Cells) > 1 && n.cores >= cores && n.memory >= memory {
							t.Fatalf("%d cores and %d MiB: %s, but node %d would do", cores, memory, told(h), n.id)
						}
					}
				}
			}
			t.Logf("%d guests on one NUMA node", exact)
		})
	}
}

// usable counts the cores of a NUMA node that a guest could have on an empty machine.
func usable(r Room, n inventory.NUMANode) int {
	count := 0
	for _, c := range r.Facts.Layout {
		if c.NUMA == n.ID && !slices.Contains(r.Keep, c.ID) && len(c.CPUs) == r.Facts.Threads() {
			count++
		}
	}
	return count
}

// On machines whose GPUs and HCAs lie in pairs, every number of them is given in pairs, and beside the guest's cores.
func TestPairsOfGPUAndHCAAreGivenTogether(t *testing.T) {
	for _, name := range []string{"dgx-h100", "dgx-a100"} {
		for n := 1; n <= 8; n++ {
			r := hypervisor(shapes.Named(name))
			g := Guest{CPUs: 8 * r.Facts.Threads(), MemoryMiB: gib(64), Devices: map[string]int{"gpu": n, "hca": n},
				Locality: Required, GPUDirect: true, Share: 1}
			for guests := 0; guests < 8/n; guests++ {
				h, err := Hold(r, g)
				if err != nil {
					t.Fatalf("%s: guest %d with %d pairs: %v", name, guests+1, n, err)
				}
				serves(t, r, g, h)
				if q := judge(r.Facts, g, h); q[2] != 0 {
					t.Fatalf("%s: %d GPUs without an HCA of their own: %s", name, q[2], told(h))
				}
				r.Held = append(r.Held, h)
			}
		}
	}
}

// Facts are what an agent has sent. However odd they are, there is an answer, and no over-commitment in their own terms.
func TestOddFactsAreAnsweredToo(t *testing.T) {
	fit := 0
	for seed := range 20_000 {
		roll := rand.New(rand.NewPCG(uint64(seed), 9)).IntN
		r := anyRoom(roll)
		f := &r.Facts
		for range 1 + roll(4) {
			if len(f.Layout) > 0 {
				core := &f.Layout[roll(len(f.Layout))]
				switch roll(5) {
				case 0:
					core.ID = roll(8)
				case 1:
					core.NUMA = roll(6) - 1
				case 2:
					core.CPUs = nil
				case 3:
					f.Layout = f.Layout[1:]
				}
			}
			node := &f.NUMA[roll(len(f.NUMA))]
			switch roll(5) {
			case 0:
				node.ID = roll(6) - 1
			case 1:
				node.MemoryMiB = roll(20) - 5
			case 2:
				node.Distances = node.Distances[:roll(len(node.Distances)+1)]
			}
			if len(f.Devices) > 0 {
				d, other := &f.Devices[roll(len(f.Devices))], f.Devices[roll(len(f.Devices))]
				switch roll(5) {
				case 0:
					d.PCI = other.PCI
				case 1:
					d.Parent = other.PCI
				case 2:
					d.NUMA = roll(9) - 3
				}
			}
		}
		if r.Check() != nil {
			r.Held = nil
		}
		g := anyGuest(roll, Room{Facts: small(1, []int{8, 4})})
		h, err := Hold(r, g)
		if err != nil {
			continue
		}
		fit++
		cores := map[int]bool{}
		for _, c := range h.Cells {
			for _, id := range c.Cores {
				if cores[id] {
					t.Fatalf("core %d twice: %+v\nin %+v", id, h, r)
				}
				cores[id] = true
			}
		}
		if len(slices.Compact(slices.Clone(h.Devices))) != len(h.Devices) {
			t.Fatalf("a device twice: %+v\nin %+v", h, r)
		}
	}
	t.Logf("%d guests fit", fit)
	if fit == 0 {
		t.Error("nothing was proven")
	}
}
