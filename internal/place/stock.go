package place

import (
	"cmp"
	"slices"

	"muster/internal/inventory"
)

// stock is what of a room a guest may have that shares its cores as it does.
type stock struct {
	threads int                // of a core
	nodes   []node             // by ID
	devices []offer            // that can be given, by address
	all     []inventory.Device // whether or not they can be given
	looks   *Looks
}

// node is what is free on one NUMA node.
type node struct {
	id        int
	distances []int
	cores     int // that the guest may have
	fresh     int // of them: that no guest has yet
	memory    int // MiB
	caches    []cache
}

// cache is what is free of the cores of one NUMA node that share a last-level cache. Some processors tell of one cache
// where there are several NUMA nodes, although it is divided with the memory: its part on each node counts as one.
type cache struct {
	id, fresh int
	cores     []int // those that others have already first, so that the others stay whole
}

// tally is who has a core.
type tally struct{ guests, share int }

// open says that one more guest may have the core.
func (t tally) open(share int) bool { return t.guests == 0 || t.guests < min(t.share, share) }

// cost is what taking stock of a room costs, in steps.
func (r Room) cost() int {
	n := 2 * (len(r.Facts.Layout) + len(r.Facts.Devices))
	for _, h := range r.Held {
		n += len(h.Devices)
		for _, c := range h.Cells {
			n += len(c.Cores)
		}
	}
	return n
}

// newStock takes stock of a room. A core with a thread offline is given to no guest: it would be told of a thread that it has
// not. Cores that have gone offline are not in the layout.
func newStock(r Room, share int) stock {
	s := stock{threads: r.Facts.Threads(), devices: offers(r), all: r.Facts.Devices}
	for _, n := range r.Facts.NUMA {
		s.nodes = append(s.nodes, node{id: n.ID, distances: n.Distances, memory: n.MemoryMiB - r.KeepMiB[n.ID]})
	}
	slices.SortFunc(s.nodes, func(a, b node) int { return cmp.Compare(a.id, b.id) })

	held := map[int]tally{}
	for _, h := range r.Held {
		for _, c := range h.Cells {
			if n := s.node(c.NUMA); n != nil {
				n.memory -= c.MemoryMiB
			}
			for _, core := range c.Cores {
				t, taken := held[core]
				t.guests++
				if hers := max(h.Share, 1); !taken || hers < t.share {
					t.share = hers
				}
				held[core] = t
			}
		}
	}
	seen := map[int]bool{}
	for _, core := range r.Facts.Layout {
		n := s.node(core.NUMA)
		if n == nil || seen[core.ID] || len(core.CPUs) < s.threads || slices.Contains(r.Keep, core.ID) ||
			!held[core.ID].open(share) {
			continue
		}
		seen[core.ID] = true
		n.add(core, held[core.ID].guests == 0)
	}
	for i := range s.nodes {
		s.nodes[i].memory = max(0, s.nodes[i].memory)
		for _, c := range s.nodes[i].caches {
			slices.SortStableFunc(c.cores, func(a, b int) int { return cmp.Compare(held[b].guests, held[a].guests) })
		}
		slices.SortStableFunc(s.nodes[i].caches, func(a, b cache) int { return cmp.Compare(len(b.cores), len(a.cores)) })
	}
	return s
}

// node is the NUMA node with a number, or nil.
func (s *stock) node(id int) *node {
	i, found := slices.BinarySearchFunc(s.nodes, id, func(n node, id int) int { return cmp.Compare(n.id, id) })
	if !found {
		return nil
	}
	return &s.nodes[i]
}

func (n *node) add(core inventory.Core, fresh bool) {
	i := slices.IndexFunc(n.caches, func(c cache) bool { return c.id == core.Cache })
	if i < 0 {
		i = len(n.caches)
		n.caches = append(n.caches, cache{id: core.Cache})
	}
	c := &n.caches[i]
	c.cores = append(c.cores, core.ID)
	n.cores++
	if fresh {
		c.fresh++
		n.fresh++
	}
}

// spans is the lowest number of caches that together have that many free cores.
func (n node) spans(cores int) int {
	for i, c := range n.caches {
		if cores <= 0 {
			return i
		}
		cores -= len(c.cores)
	}
	return len(n.caches)
}

// pick chooses cores on the lowest number of caches: the largest are taken whole, and what is left over comes from the one
// that it fills best.
func (n node) pick(cores int) []int {
	var picked []int
	for left := slices.Clone(n.caches); cores > 0; {
		best := 0 // the largest
		for i, c := range left {
			if len(c.cores) >= cores && tighter(c, left[best]) {
				best = i
			}
		}
		take := min(cores, len(left[best].cores))
		picked = append(picked, left[best].cores[:take]...)
		cores -= take
		left = slices.Delete(left, best, best+1)
	}
	slices.Sort(picked)
	return picked
}

func tighter(a, b cache) bool {
	return cmp.Or(cmp.Compare(a.fresh, b.fresh), cmp.Compare(len(a.cores), len(b.cores)), cmp.Compare(a.id, b.id)) < 0
}

// distance between two NUMA nodes, there and back, as the firmware tells it; 20 each way, ACPI's word for another node,
// where it does not.
func (s *stock) distance(a, b int) int {
	one := func(from, to int) int {
		if d := s.nodes[from].distances; len(d) == len(s.nodes) {
			return d[to]
		}
		return 20
	}
	return one(a, b) + one(b, a)
}
