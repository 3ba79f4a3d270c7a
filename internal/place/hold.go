package place

import (
	"cmp"
	"maps"
	"slices"
)

// Hold gives a guest its part of a host: the exact cores, memory and devices. The error is a *Misfit.
//
// The cores lie on as few NUMA nodes as possible, in equal parts. Among such answers the best is the one with the most
// devices near (if that is preferred) and the most GPUs with an HCA of their own (if that is asked), then with the shortest
// distances between its nodes, then on the fewest last-level caches. Among equals it is the one that leaves the most to
// others: the fewest devices beside it that it does not want, the fewest cores that no guest has yet, the least memory. And then
// the lowest numbers. See docs/decisions/guests.md.
//
// The holding has no name of a guest: that is the caller's to write.
func Hold(r Room, g Guest) (Allocation, error) {
	h, _, misfit := hold(r, g, nil)
	if misfit != nil {
		return Allocation{}, misfit
	}
	return h, nil
}

// hold is Hold. Once looks are spent its answer is not to be used.
func hold(r Room, g Guest, looks *Looks) (Allocation, score, *Misfit) {
	if misfit := ask(r.Facts, g); misfit != nil {
		return Allocation{}, score{}, misfit
	}
	looks.Take(r.cost())
	s := newStock(r, max(g.Share, 1))
	s.looks = looks
	w := s.want(g)
	if misfit := s.short(w); misfit != nil {
		return Allocation{}, score{}, misfit
	}
	set, best, found := s.search(w)
	if !found {
		return Allocation{}, score{}, s.refuse(w)
	}
	asked := 0
	for _, n := range w.devices {
		asked += n
	}
	looks.Take(perPrice * asked * len(s.devices))
	devices := s.choose(w, set)
	return Allocation{Cells: s.cells(w, set), Devices: devices, Withheld: s.withheld(devices), Share: max(g.Share, 1)}, best, nil
}

// want is what a guest asks, in the host's terms.
type want struct {
	cores, memory int
	step          int // MiB that memory is divided in: pages of 2 MiB stay whole where it is even
	devices       map[string]int
	locality      Locality
	direct        bool
}

// want puts what a guest asks into the terms of the host.
func (s *stock) want(g Guest) want {
	w := want{cores: g.CPUs / s.threads, memory: g.MemoryMiB, step: 2 - g.MemoryMiB%2, devices: maps.Clone(g.Devices),
		locality: g.Locality}
	maps.DeleteFunc(w.devices, func(_ string, n int) bool { return n == 0 })
	w.direct = g.GPUDirect && w.devices["gpu"] > 0
	if w.locality == "" {
		w.locality = Preferred
	}
	return w
}

// kinds are the kinds of devices asked for, in order.
func (w want) kinds() []string { return slices.Sorted(maps.Keys(w.devices)) }

// score is how good a set of NUMA nodes is: less is better, and what comes first weighs more than all that follows.
type score [8]int

// What the places of a score are.
const (
	scoreNodes    = iota // NUMA nodes
	scoreFar             // devices on other ones, where the guest prefers near ones
	scoreLone            // GPUs without an HCA of their own, where the guest asks for pairs
	scoreDistance        // between its nodes
	scoreCaches          // last-level caches
	scoreStranded        // devices beside it that it does not want
	scoreFresh           // cores beside it, itself included, that no guest has
	scoreMemory          // MiB beside it, itself included
)

func (a score) less(b score) bool { return slices.Compare(a[:], b[:]) < 0 }

// search finds the best set of NUMA nodes. It weighs every set of one node, then of two, and so on, until one fits.
func (s *stock) search(w want) (set []int, best score, found bool) {
	for k := 1; k <= min(len(s.nodes), w.cores) && !found; k++ {
		if w.memory > 0 && w.part(k) == 0 {
			break
		}
		var able []int
		for i, n := range s.nodes {
			if n.cores >= w.cores/k && n.memory >= w.part(k) {
				able = append(able, i)
			}
		}
		for candidate := range s.sets(able, k) {
			if !s.looks.Take(k * (k + len(s.devices))) {
				return nil, score{}, false
			}
			if is, ok := s.weigh(w, candidate); ok && (!found || is.less(best)) {
				set, best, found = slices.Clone(candidate), is, true
			}
		}
	}
	return set, best, found
}

// part is the smaller part of the guest's memory on one of k nodes.
func (w want) part(k int) int { return w.memory / w.step / k * w.step }

// weigh says whether a guest fits on exactly these nodes, and how good that would be.
func (s *stock) weigh(w want, set []int) (is score, fits bool) {
	k := len(set)
	each, part := w.cores/k, w.part(k)
	roomy, large, free := 0, 0, 0 // nodes that can have a core more, some memory more, a core more on the same caches
	is[scoreNodes] = k
	for at, i := range set {
		n := s.nodes[i]
		if n.cores < each || n.memory < part {
			return is, false
		}
		spans := n.spans(each)
		if n.cores > each {
			roomy++
			if n.spans(each+1) == spans {
				free++
			}
		}
		if n.memory >= part+w.step {
			large++
		}
		for _, j := range set[:at] {
			is[scoreDistance] += s.distance(i, j)
		}
		is[scoreCaches] += spans
		is[scoreFresh] += n.fresh
		is[scoreMemory] += n.memory
	}
	rest := w.cores % k
	is[scoreCaches] += max(0, rest-free)
	if roomy < rest || large < w.memory/w.step%k {
		return is, false
	}
	return is, s.weighDevices(w, set, &is)
}

// weighDevices does weigh's part for devices.
func (s *stock) weighDevices(w want, set []int, is *score) bool {
	beside := map[string]int{}
	for _, o := range s.devices {
		if s.near(o, set) {
			beside[o.Kind]++
			is[scoreStranded]++
		}
	}
	for kind, asked := range w.devices {
		far := max(0, asked-beside[kind])
		is[scoreStranded] -= asked - far
		switch paired := w.direct && (kind == "gpu" || kind == "hca"); {
		case w.locality == Required && far > 0:
			return false
		case w.locality == Preferred && !paired:
			is[scoreFar] += far
		}
	}
	if w.direct {
		ports, _ := s.ports(w, set)
		if !s.looks.Take(len(ports) * (w.devices["gpu"] + 1) * (w.devices["hca"] + 1)) {
			return false
		}
		_, p, ok := pair(ports, w.devices["gpu"], w.devices["hca"])
		is[scoreFar] += p[0]
		is[scoreLone] = p[1]
		return ok
	}
	return true
}

// cells divides a guest over nodes that weigh has found good. A core more goes where it needs no further cache, then where
// most is free; memory where most is free.
func (s *stock) cells(w want, set []int) []Cell {
	k := len(set)
	each := w.cores / k
	growth := func(i int) int { return s.nodes[i].spans(each+1) - s.nodes[i].spans(each) }
	cores := slices.DeleteFunc(slices.Clone(set), func(i int) bool { return s.nodes[i].cores == each })
	slices.SortStableFunc(cores, func(a, b int) int {
		return cmp.Or(cmp.Compare(growth(a), growth(b)), cmp.Compare(s.nodes[b].cores, s.nodes[a].cores))
	})
	memory := slices.Clone(set)
	slices.SortStableFunc(memory, func(a, b int) int { return cmp.Compare(s.nodes[b].memory, s.nodes[a].memory) })

	var cells []Cell
	for _, i := range set {
		c := Cell{NUMA: s.nodes[i].id, MemoryMiB: w.part(k)}
		n := each
		if slices.Contains(cores[:w.cores%k], i) {
			n++
		}
		if slices.Contains(memory[:w.memory/w.step%k], i) {
			c.MemoryMiB += w.step
		}
		c.Cores = s.nodes[i].pick(n)
		cells = append(cells, c)
	}
	return cells
}
