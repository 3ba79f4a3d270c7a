package place

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"muster/internal/place/topology"
)

// Policy is how the machines of a want are to lie in the network.
type Policy string

// The policies, as cluster files name them.
const (
	Anywhere   Policy = "any"
	Compact    Policy = "compact"     // near each other
	Spread     Policy = "spread"      // on as many leaf switches as can be
	SameSwitch Policy = "same-switch" // on one leaf switch, or not at all
)

// Apart says that machines enough are free, but not on one switch.
type Apart struct {
	Class   string
	Asked   int
	Most    int    // the most that are free on one switch
	At      string // that switch; "" if it is of no machine known where it is
	Only    bool   // it must be this one, on which the other nodes are
	Claimed bool   // on a switch there are enough, but other wants need some of them
}

func (a *Apart) Error() string {
	switch {
	case a.At == "":
		return fmt.Sprintf("class %s: %d on one switch asked, but the switch of none of its free machines is known", a.Class,
			a.Asked)
	case a.Claimed:
		return fmt.Sprintf("class %s: %d on one switch asked, but where so many are free (%s) other queues need some of them",
			a.Class, a.Asked, a.At)
	case a.Only:
		return fmt.Sprintf("class %s: %d asked on %s, where the other nodes are, %d free there", a.Class, a.Asked, a.At, a.Most)
	}
	return fmt.Sprintf("class %s: %d on one switch asked, at most %d free on one (%s)", a.Class, a.Asked, a.Most, a.At)
}

// narrow lets each want that is for one switch have the machines of one only: of those on which enough are free, and
// without which the other wants still get theirs, the one with the fewest. The largest want goes first. The error is an *Apart.
func (m *matching) narrow() error {
	var order []int
	for w, want := range m.wants {
		if want.Policy == SameSwitch && want.Nodes > 0 {
			order = append(order, w)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.wants[b].Nodes, m.wants[a].Nodes) })
	for _, w := range order {
		if err := m.narrowOne(w); err != nil {
			return err
		}
	}
	return nil
}

func (m *matching) narrowOne(w int) error {
	want := m.wants[w]
	on := map[int][]int{} // place → machines
	for _, i := range m.fits[w] {
		if p, known := want.Map.At(m.free[i].ID); known {
			on[p] = append(on[p], i)
		}
	}
	apart := &Apart{Class: want.Class.Name, Asked: want.Nodes}
	home := nobody
	if there := beside(want); len(there) > 0 {
		for p, n := range there {
			if home == nobody || n > there[home] || n == there[home] && p < home {
				home = p
			}
		}
		apart.Only, apart.At, apart.Most = true, want.Map.Places[home].Name, len(on[home])
	}
	var order []int
	for p, machines := range on {
		if home != nobody && p != home {
			continue
		}
		order = append(order, p)
		if home == nobody && (len(machines) > apart.Most || len(machines) == apart.Most && want.Map.Places[p].Name < apart.At) {
			apart.Most, apart.At = len(machines), want.Map.Places[p].Name
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(len(on[a]), len(on[b])), cmp.Compare(a, b)) })
	all := m.fits[w]
	for _, p := range order {
		if len(on[p]) < want.Nodes || m.looks.Spent() {
			continue
		}
		m.fits[w] = on[p]
		if m.fill() == nil {
			return nil
		}
		apart.Claimed, apart.At = true, want.Map.Places[p].Name
	}
	m.fits[w] = all
	return apart
}

// beside counts the machines that a want is to be beside, by place.
func beside(w Want) map[int]int {
	there := map[int]int{}
	for _, id := range w.Beside {
		if p, known := w.Map.At(id); known {
			there[p]++
		}
	}
	return there
}

// arrange lets the wants that are to lie near or far choose among the machines of their class: their own, those of wants of
// the same class, which do with any, and those that no want has. So all others keep theirs.
func (m *matching) arrange() {
	done := make([]bool, len(m.wants))
	for w := range m.wants {
		if done[w] {
			continue
		}
		var alike []int
		for v := w; v < len(m.wants); v++ {
			if !done[v] && m.wants[v].Policy != SameSwitch && slices.Equal(m.fits[v], m.fits[w]) {
				alike, done[v] = append(alike, v), true
			}
		}
		if slices.ContainsFunc(alike, func(v int) bool { return m.wants[v].lies() }) {
			m.share(alike)
		}
	}
}

// lies says that the want chooses by where machines are.
func (w Want) lies() bool { return w.Map != nil && (w.Policy == Compact || w.Policy == Spread) }

// share deals the machines of one class out again: those that are to be compact choose first, the largest before the others,
// then those that spread, and the rest take what is left in the order of their names.
func (m *matching) share(alike []int) {
	var pool []int
	for _, i := range m.fits[alike[0]] {
		if m.owner[i] == nobody || slices.Contains(alike, m.owner[i]) {
			m.owner[i] = nobody
			pool = append(pool, i)
		}
	}
	rank := func(w int) int {
		if !m.wants[w].lies() {
			return 2
		}
		return slices.Index([]Policy{Compact, Spread}, m.wants[w].Policy)
	}
	slices.SortStableFunc(alike, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(m.wants[b].Nodes, m.wants[a].Nodes)*flag(rank(a) == 0))
	})
	for _, w := range alike {
		var chosen []int
		if m.wants[w].lies() {
			chosen = m.layout(m.wants[w], pool)
			m.laid[w] = chosen
			m.together(w, chosen)
		} else {
			chosen = pool[:m.wants[w].Nodes]
		}
		for _, i := range chosen {
			m.owner[i] = w
		}
		pool = slices.DeleteFunc(slices.Clone(pool), func(i int) bool { return m.owner[i] != nobody })
	}
}

// together lets the other wants of a group be beside what one of them has been given.
func (m *matching) together(w int, chosen []int) {
	for v := range m.wants {
		if other := &m.wants[v]; v != w && other.Group != "" && other.Group == m.wants[w].Group {
			other.Beside = slices.Clone(other.Beside)
			for _, i := range chosen {
				other.Beside = append(other.Beside, m.free[i].ID)
			}
		}
	}
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// layout chooses a want's machines from a pool by its policy. Machines that are on no map are in a place of their own, farther
// than any other.
func (m *matching) layout(want Want, pool []int) []int {
	places := len(want.Map.Places)
	m.looks.Take(places*places + want.Nodes*len(pool)/perPlaces)
	at := make([][]int, places+1)
	for _, i := range pool {
		p, known := want.Map.At(m.free[i].ID)
		if !known {
			p = places
		}
		at[p] = append(at[p], i)
	}
	if m.lands == nil {
		m.lands = map[*topology.Map]*landscape{}
	}
	if m.lands[want.Map] == nil {
		m.lands[want.Map] = newLandscape(want.Map)
	}
	g := m.lands[want.Map].with(beside(want))
	for p := range at {
		g.free[p] = len(at[p])
	}
	answer := []int(nil)
	if want.Policy == Spread {
		answer = g.spread(want.Nodes)
	} else {
		answer = g.compact(want.Nodes)
	}
	var chosen []int
	for p, n := range answer {
		chosen = append(chosen, at[p][:n]...)
	}
	return chosen
}

// newLandscape is a map's places, and one more for machines that are not on it.
func newLandscape(m *topology.Map) *landscape {
	n := len(m.Places)
	g := &landscape{within: make([]int, n+1), apart: make([][]int, n+1)}
	far := 0
	for p := range n {
		for q := range n {
			far = max(far, m.Hops(p, q))
		}
	}
	far += 2
	for p := range g.apart {
		g.apart[p] = make([]int, n+1)
		for q := range g.apart[p] {
			switch {
			case p == q:
			case p == n || q == n || m.Hops(p, q) == topology.Unreachable:
				g.apart[p][q] = far
			default:
				g.apart[p][q] = m.Hops(p, q)
			}
		}
	}
	g.within[n] = far
	return g
}

// with is the landscape with so many nodes in places, and nothing free.
func (g *landscape) with(there map[int]int) *landscape {
	all := landscape{free: make([]int, len(g.apart)), there: make([]int, len(g.apart)), near: make([]int, len(g.apart)),
		apart: g.apart, within: g.within}
	for q, nodes := range there {
		all.there[q] = nodes
		for p := range all.near {
			all.near[p] += nodes * all.hops(p, q)
		}
	}
	return &all
}

// hops are those between two machines in places.
func (g *landscape) hops(p, q int) int {
	if p == q {
		return g.within[p]
	}
	return g.apart[p][q]
}

// Layout tells how chosen machines lie, with those that are there.
type Layout struct {
	Places  []Part // those with nodes, the one with the most first
	Hops    int    // at most, between any two; topology.Unreachable if between some no way is known
	Mean    float64
	Unknown int // machines that are not on the map
}

// Part is a place's part of the nodes.
type Part struct {
	Place string
	Nodes int
	Up    int // cables from there to other switches, which the nodes share; 0: not known
}

// LayoutOf tells it of machines, by their IDs.
func LayoutOf(m *topology.Map, machines []string) Layout {
	var l Layout
	count := map[int]int{}
	for _, id := range machines {
		if p, known := m.At(id); known {
			count[p]++
		} else {
			l.Unknown++
		}
	}
	order := slices.SortedFunc(maps.Keys(count), func(a, b int) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	sum, pairs, known := 0, 0, len(machines)-l.Unknown
	for i, p := range order {
		l.Places = append(l.Places, Part{m.Places[p].Name, count[p], m.Places[p].Up})
		for _, q := range order[:i] {
			hops := m.Hops(p, q)
			if hops == topology.Unreachable || l.Hops == topology.Unreachable {
				l.Hops = topology.Unreachable
				continue
			}
			l.Hops = max(l.Hops, hops)
			sum += hops * count[p] * count[q]
		}
	}
	if pairs = known * (known - 1) / 2; pairs > 0 {
		l.Mean = float64(sum) / float64(pairs)
	}
	return l
}
