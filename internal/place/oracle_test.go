package place

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/inventory"
)

// quality is what Hold promises the best of, in this order: NUMA nodes, far devices, GPUs without an HCA of their own,
// distances, caches.
type quality [5]int

// judge finds the quality of a holding from what it holds.
func judge(f inventory.Facts, g Guest, h Allocation) quality {
	q := quality{0: len(h.Cells)}
	caches := map[[2]int]bool{}
	for _, c := range h.Cells {
		for _, other := range h.Cells {
			if other.NUMA != c.NUMA {
				q[3] += f.NUMA[c.NUMA].Distances[other.NUMA]
			}
		}
		for _, core := range f.Layout {
			if slices.Contains(c.Cores, core.ID) {
				caches[[2]int{core.NUMA, core.Cache}] = true
			}
		}
	}
	q[4] = len(caches)
	gpus, hcas := map[string]int{}, map[string]int{}
	for _, d := range f.Devices {
		if !slices.Contains(h.Devices, d.PCI) {
			continue
		}
		if g.Locality == Preferred && !local(f, h, d) {
			q[1]++
		}
		if g.GPUDirect && d.Kind == "gpu" {
			gpus[portOf(d)]++
		}
		if d.Kind == "hca" && portOf(d) != "" {
			hcas[portOf(d)]++
		}
	}
	for port, n := range gpus {
		q[2] += max(0, n-hcas[port])
	}
	return q
}

func local(f inventory.Facts, h Allocation, d inventory.Device) bool {
	if d.NUMA == -1 {
		return len(f.NUMA) == 1
	}
	return slices.ContainsFunc(h.Cells, func(c Cell) bool { return c.NUMA == d.NUMA })
}

func portOf(d inventory.Device) string {
	if len(d.Path) == 0 {
		return ""
	}
	return d.Path[0]
}

// exhaust tries every set of cores, every division of the memory and every set of devices. What may not be is what Check
// says, and the rules of Hold for one guest.
func exhaust(r Room, g Guest) (best quality, found bool) {
	f := r.Facts
	if g.CPUs%f.Threads() != 0 {
		return best, false
	}
	fine := func(h Allocation) bool {
		r := r
		r.Held = append(slices.Clone(r.Held), h)
		return r.Check() == nil
	}
	var sets [][]string
	for mask := range 1 << len(f.Devices) {
		set, count := []string{}, map[string]int{}
		for i, d := range f.Devices {
			if mask>>i&1 == 1 && mayBeGiven(r, d) {
				set = append(set, d.PCI)
				count[d.Kind]++
			}
		}
		if len(set) == bits.OnesCount(uint(mask)) && reflect.DeepEqual(count, g.Devices) && fine(Allocation{Devices: set}) {
			sets = append(sets, set)
		}
	}
	for mask := range 1 << len(f.Layout) {
		if bits.OnesCount(uint(mask)) != g.CPUs/f.Threads() {
			continue
		}
		for _, h := range divisions(f, g, mask) {
			if !fine(h) {
				continue
			}
			for _, h.Devices = range sets {
				if q := judge(f, g, h); wellPlaced(f, g, h) && (!found || slices.Compare(q[:], best[:]) < 0) {
					best, found = q, true
				}
			}
		}
	}
	return best, found
}

// divisions are the ways to have these cores, with as many on every node as on any other, or one more, and memory likewise.
func divisions(f inventory.Facts, g Guest, mask int) (ways []Allocation) {
	var cells []Cell
	for i, c := range f.Layout {
		if mask>>i&1 == 0 {
			continue
		}
		if len(c.CPUs) < f.Threads() {
			return nil
		}
		if len(cells) == 0 || cells[len(cells)-1].NUMA != c.NUMA {
			cells = append(cells, Cell{NUMA: c.NUMA})
		}
		cells[len(cells)-1].Cores = append(cells[len(cells)-1].Cores, c.ID)
	}
	most, least := 0, len(f.Layout)
	for _, c := range cells {
		most, least = max(most, len(c.Cores)), min(least, len(c.Cores))
	}
	if most > least+1 {
		return nil
	}
	step := 1
	if g.MemoryMiB%2 == 0 {
		step = 2
	}
	for more := range 1 << len(cells) {
		h := Allocation{Cells: slices.Clone(cells), Share: g.Share}
		sum, least := 0, g.MemoryMiB
		for i := range h.Cells {
			h.Cells[i].MemoryMiB = g.MemoryMiB / step / len(cells) * step
			if more>>i&1 == 1 {
				h.Cells[i].MemoryMiB += step
			}
			sum += h.Cells[i].MemoryMiB
			least = min(least, h.Cells[i].MemoryMiB)
		}
		if sum == g.MemoryMiB && least > 0 {
			ways = append(ways, h)
		}
	}
	return ways
}

// mayBeGiven are the rules for devices that Check does not know: it does not look at what is lost.
func mayBeGiven(r Room, d inventory.Device) bool {
	for _, other := range r.Facts.Devices {
		lost := slices.Contains(r.Lost, other.PCI)
		if other.Parent == d.PCI || // divided
			lost && (other.PCI == d.PCI || other.PCI == d.Parent || other.Group == d.Group && other.Kind != "bridge") {
			return false
		}
	}
	return true
}

// wellPlaced are the rules that bind devices to the guest's nodes and to each other.
func wellPlaced(f inventory.Facts, g Guest, h Allocation) bool {
	has := func(kind, port string) bool {
		return slices.ContainsFunc(f.Devices, func(d inventory.Device) bool {
			return d.Kind == kind && portOf(d) == port && slices.Contains(h.Devices, d.PCI)
		})
	}
	for _, d := range f.Devices {
		if !slices.Contains(h.Devices, d.PCI) {
			continue
		}
		if g.Locality == Required && !local(f, h, d) {
			return false
		}
		if g.GPUDirect && d.Kind == "gpu" && (portOf(d) == "" || !has("hca", portOf(d))) {
			return false
		}
	}
	return true
}

// agree compares Hold with the exhaustive search, and says whether the guest fits.
func agree(t interface{ Fatalf(string, ...any) }, r Room, g Guest) bool {
	h, err := Hold(r, g)
	best, possible := exhaust(r, g)
	switch mf := (*Misfit)(nil); {
	case err != nil && !errors.As(err, &mf):
		t.Fatalf("not a Misfit: %v", err)
	case err != nil && possible:
		t.Fatalf("%+v\nin %+v\nfits with %v, but: %v", g, r, best, err)
	case err == nil && !possible:
		t.Fatalf("%+v\nin %+v\ncannot have %+v", g, r, h)
	case err == nil:
		if q := judge(r.Facts, g, h); q != best {
			t.Fatalf("%+v\nin %+v\nhas %+v: %v, but %v is possible", g, r, h, q, best)
		}
		serves(t, r, g, h)
	}
	return err == nil
}

// serves checks that a holding is what the guest asked, and that the room can give it.
func serves(t interface{ Fatalf(string, ...any) }, r Room, g Guest, h Allocation) {
	asked, kinds := positive(g.Devices), map[string]int{}
	cores, memory := 0, 0
	for i, c := range h.Cells {
		cores += len(c.Cores)
		memory += c.MemoryMiB
		if i > 0 && c.NUMA <= h.Cells[i-1].NUMA || !slices.IsSorted(c.Cores) {
			t.Fatalf("not in order: %+v", h)
		}
	}
	for _, d := range r.Facts.Devices {
		if slices.Contains(h.Devices, d.PCI) {
			kinds[d.Kind]++
			if !mayBeGiven(r, d) {
				t.Fatalf("%s cannot be given\nin %+v", d.PCI, r)
			}
		}
	}
	cpus := h.CPUs(r.Facts)
	if len(cpus) != g.CPUs || cores*r.Facts.Threads() != g.CPUs || memory != g.MemoryMiB || !reflect.DeepEqual(kinds, asked) ||
		!slices.IsSorted(h.Devices) || h.Share != max(g.Share, 1) {
		t.Fatalf("%+v\nhas %+v with CPUs %v", g, h, cpus)
	}
	if !wellPlaced(r.Facts, g, h) {
		t.Fatalf("%+v\nin %+v\nhas devices in the wrong place: %+v", g, r, h)
	}
	r.Held = append(slices.Clone(r.Held), h)
	if err := r.Check(); err != nil {
		t.Fatalf("%+v\nin %+v\nhas %+v: %v", g, r, h, err)
	}
}

// positive is a clone without zeros.
func positive(m map[string]int) map[string]int {
	clone := map[string]int{}
	for k, n := range m {
		if n > 0 {
			clone[k] = n
		}
	}
	return clone
}

// small makes a machine: for every NUMA node its MiB, and the sizes of its caches in cores.
func small(threads int, nodes ...[]int) inventory.Facts {
	var f inventory.Facts
	id := 0
	for n, sizes := range nodes {
		f.NUMA = append(f.NUMA, inventory.NUMANode{ID: n, MemoryMiB: sizes[0]})
		for _, size := range sizes[1:] {
			first := id
			for range size {
				f.Layout = append(f.Layout, inventory.Core{ID: id, NUMA: n, Cache: first})
				id++
			}
		}
	}
	for i := range f.Layout {
		for t := range threads {
			f.Layout[i].CPUs = append(f.Layout[i].CPUs, f.Layout[i].ID+t*id)
		}
	}
	for n := range f.NUMA {
		for m := range f.NUMA {
			far := 10 + 11*min(1, abs(n-m))
			if n/2 == m/2 && n != m {
				far = 12
			}
			f.NUMA[n].Distances = append(f.NUMA[n].Distances, far)
		}
	}
	return f
}

func abs(n int) int { return max(n, -n) }

func device(n int, kind string, numa int, port string) inventory.Device {
	d := inventory.Device{Kind: kind, PCI: fmt.Sprintf("0000:%02x:00.0", n), NUMA: numa, Group: fmt.Sprint(n)}
	if port != "" {
		d.Path = []string{port, port + "-switch"}
	}
	return d
}

func TestEverySmallMachineAndGuestIsAnsweredAsByExhaustion(t *testing.T) {
	kinds := [][]int{{8, 1}, {8, 2}, {8, 1, 1}, {3, 3}, {2, 2, 2}, {0, 2}, {9}}
	var machines [][][]int
	var extend func(nodes [][]int, from int)
	extend = func(nodes [][]int, from int) {
		if len(small(1, nodes...).Layout) > 8 || len(nodes) > 4 {
			return
		}
		if len(nodes) > 0 {
			machines = append(machines, slices.Clone(nodes))
		}
		for i := from; i < len(kinds); i++ {
			extend(append(nodes, kinds[i]), i)
		}
	}
	extend(nil, 0)
	fit, not := 0, 0
	for _, nodes := range machines {
		f := small(1, nodes...)
		if len(f.Layout) == 0 {
			continue
		}
		for cpus := 1; cpus <= len(f.Layout)+1; cpus++ {
			for _, memory := range []int{1, 4, 7, 12, 30} {
				if agree(t, Room{Facts: f}, Guest{CPUs: cpus, MemoryMiB: memory, Devices: map[string]int{}, Locality: Preferred,
					Share: 1}) {
					fit++
				} else {
					not++
				}
			}
		}
	}
	t.Logf("%d machines: %d guests fit, %d do not", len(machines), fit, not)
}

func TestEverySmallSetOfDevicesIsAnsweredAsByExhaustion(t *testing.T) {
	var sets [][]inventory.Device
	var extend func(set []inventory.Device, from int)
	extend = func(set []inventory.Device, from int) {
		sets = append(sets, slices.Clone(set))
		if len(set) == 4 {
			return
		}
		for i := from; i < 8; i++ {
			extend(append(set, device(len(set)+1, []string{"gpu", "hca"}[i&1], i>>1&1, []string{"a", "b"}[i>>2])), i)
		}
	}
	extend(nil, 0)
	fit, not := 0, 0
	for _, set := range sets {
		f := small(1, []int{8, 2}, []int{8, 1})
		f.Devices = set
		for i := range 3 * 3 * 3 * 2 * 2 {
			g := Guest{CPUs: 1 + i/54, MemoryMiB: 4, Devices: map[string]int{}, GPUDirect: i/27%2 == 1, Share: 1,
				Locality: []Locality{Required, Preferred, Any}[i/9%3]}
			if n := i % 3; n > 0 {
				g.Devices["gpu"] = n
			}
			if n := i / 3 % 3; n > 0 {
				g.Devices["hca"] = n
			}
			if agree(t, Room{Facts: f}, g) {
				fit++
			} else {
				not++
			}
		}
	}
	t.Logf("%d sets of devices: %d guests fit, %d do not", len(sets), fit, not)
}

func TestPairsOfManyDevicesAreAnsweredAsByExhaustion(t *testing.T) {
	fit, rooms := 0, 6_000
	for seed := range rooms {
		roll := rand.New(rand.NewPCG(uint64(seed), 5)).IntN
		f := small(1, []int{8, 1}, []int{8, 2}, []int{8, 1})
		for i := range 6 {
			f.Devices = append(f.Devices, device(i, []string{"gpu", "hca"}[roll(2)], roll(3),
				[]string{"a", "a", "b", "b", "c", ""}[roll(6)]))
		}
		gpus := 1 + roll(3)
		g := Guest{CPUs: 1 + roll(3), MemoryMiB: 4, Devices: map[string]int{"gpu": gpus, "hca": 1 + roll(gpus)}, GPUDirect: true,
			Share:    1,
			Locality: []Locality{Required, Preferred, Any}[roll(3)]}
		if agree(t, Room{Facts: f}, g) {
			fit++
		}
	}
	t.Logf("%d of %d guests fit", fit, rooms)
	if fit < rooms/10 || fit > rooms*9/10 {
		t.Error("the rooms are too full or too empty to prove anything")
	}
}

// dice draws a number from 0 to n-1.
type dice func(n int) int

// anyRoom is a small machine with guests on it that were not placed wisely.
func anyRoom(roll dice) Room {
	nodes := make([][]int, 1+roll(4))
	cores := 1 + roll(8)
	for i := range nodes {
		nodes[i] = []int{roll(13)}
	}
	for ; cores > 0; cores-- {
		i := roll(len(nodes))
		if n := nodes[i]; len(n) > 1 && roll(2) == 0 {
			n[len(n)-1]++
		} else {
			nodes[i] = append(n, 1)
		}
	}
	f := small(1+roll(2), nodes...)
	if i := roll(2 * len(f.Layout)); i < len(f.Layout) {
		f.Layout[i].CPUs = f.Layout[i].CPUs[:1] // on a machine with threads: one is offline
	}
	for i := range 4 - roll(roll(4)+1) {
		d := device(i, []string{"gpu", "hca", "nic", "bridge", "gpu", "hca"}[roll(6)], roll(len(nodes)+1)-1,
			[]string{"", "a", "a", "b"}[roll(4)])
		d.Group = []string{d.Group, d.Group, d.Group, "5", "6", ""}[roll(6)]
		if roll(8) == 0 {
			d.Host = "root file system"
		}
		if i > 0 && roll(4) == 0 {
			parent := f.Devices[roll(i)]
			if parent.Parent == "" {
				d.Parent, d.Kind, d.NUMA, d.Path = parent.PCI, parent.Kind, parent.NUMA, parent.Path
			}
		}
		f.Devices = append(f.Devices, d)
	}
	r := Room{Facts: f, KeepMiB: map[int]int{roll(len(nodes)): roll(3)}}
	if roll(2) == 0 {
		r.Keep = []int{roll(len(f.Layout))}
	}
	for _, d := range f.Devices {
		if roll(8) == 0 {
			r.Lost = append(r.Lost, d.PCI)
		}
	}
	for i := range max(0, roll(5)-1) {
		h := Allocation{Guest: fmt.Sprint("g", i), Share: 1 + roll(3)}
		for _, c := range f.Layout {
			if roll(4) == 0 {
				h.Cells = append(h.Cells, Cell{NUMA: c.NUMA, Cores: []int{c.ID}, MemoryMiB: roll(3)})
			}
		}
		for _, d := range f.Devices {
			if roll(8) == 0 {
				h.Devices = append(h.Devices, d.PCI)
			}
		}
		more := r
		if more.Held = append(slices.Clone(r.Held), h); more.Check() == nil {
			r = more
		}
	}
	return r
}

func anyGuest(roll dice, r Room) Guest {
	g := Guest{CPUs: r.Facts.Threads() * (1 + roll(1+roll(len(r.Facts.Layout)))), MemoryMiB: 1 + roll(1+roll(16)),
		Devices: map[string]int{}, Share: 1 + roll(3),
		Locality: []Locality{Required, Preferred, Any}[roll(3)], GPUDirect: roll(2) == 0}
	for _, kind := range []string{"gpu", "hca", "hca", "nic"} {
		if roll(4) == 0 {
			g.Devices[kind] = 1 + roll(4)/3
		}
	}
	return g
}

func TestAnyRoomIsAnsweredAsByExhaustion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roll := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "die") }
		r := anyRoom(roll)
		agree(t, r, anyGuest(roll, r))
	})
}

func TestManyRoomsAreAnsweredAsByExhaustion(t *testing.T) {
	fit, rooms := 0, 20_000
	if testing.Short() {
		rooms = 2_000
	}
	for seed := range rooms {
		roll := rand.New(rand.NewPCG(uint64(seed), 6)).IntN
		r := anyRoom(roll)
		if agree(t, r, anyGuest(roll, r)) {
			fit++
		}
	}
	t.Logf("%d of %d guests fit", fit, rooms)
	if fit < rooms/10 || fit > rooms*9/10 {
		t.Error("the rooms are too full or too empty to prove anything")
	}
}

func TestAGuestMoreNeverMakesRoomAndAGuestLessNeverTakesIt(t *testing.T) {
	changed := 0
	for seed := range 20_000 {
		roll := rand.New(rand.NewPCG(uint64(seed), 7)).IntN
		full := anyRoom(roll)
		if len(full.Held) == 0 {
			continue
		}
		g := anyGuest(roll, full)
		less := full
		less.Held = full.Held[1:]
		_, tight := Hold(full, g)
		_, loose := Hold(less, g)
		if tight == nil && loose != nil {
			t.Fatalf("%+v\nfits in %+v\nbut not without the first: %v", g, full, loose)
		}
		if tight != nil && loose == nil {
			changed++
		}
	}
	if changed == 0 {
		t.Error("no guest made any difference")
	}
}
