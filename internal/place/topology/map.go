package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"muster/internal/fabric"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
)

// Map says where machines lie in a fabric. Machines with their ports on the same leaves, rail by rail, are in one place.
type Map struct {
	Fabric string
	Places []Place // by name
	at     map[string]int
	hops   [][]int
}

// Place is one leaf, or the leaves of machines with several rails.
type Place struct {
	Name string // of the leaf: "leaf03"; of several: "leaf03+leaf04"
	Up   int    // cables from the leaf to other switches, of several the fewest; 0: not known, or none
}

// Machine is a machine and the adapters by which it hangs on fabrics.
type Machine struct {
	ID       string        // the machine's, by which the map will know it
	Name     string        // by which LLDP's snapshots know it
	Adapters []fabric.GUID // nodes of its InfiniBand adapters
}

// spot is a machine's place before it has a number: its leaf on each rail.
type spot struct{ rail, leaf int }

// Map puts machines on the graph. Those that have no port in it are not on the map.
func (g *Graph) Map(name string, machines []Machine) *Map {
	byAdapter, byHost := map[fabric.GUID][]spot{}, map[string][]spot{}
	for _, p := range g.Ports {
		s := spot{p.Rail, p.Switch}
		if p.Adapter != 0 {
			byAdapter[p.Adapter] = append(byAdapter[p.Adapter], s)
		} else {
			byHost[p.Host] = append(byHost[p.Host], s)
		}
	}
	var places [][]spot
	known := map[string]int{}
	m := &Map{Fabric: name, at: map[string]int{}}
	for _, machine := range machines {
		spots := slices.Clone(byHost[machine.Name])
		for _, a := range machine.Adapters {
			spots = append(spots, byAdapter[a]...)
		}
		if len(spots) == 0 {
			continue
		}
		slices.SortFunc(spots, func(a, b spot) int { return cmp.Or(cmp.Compare(a.rail, b.rail), cmp.Compare(a.leaf, b.leaf)) })
		spots = slices.Compact(spots)
		key := fmt.Sprint(spots)
		if _, there := known[key]; !there {
			known[key] = len(places)
			places = append(places, spots)
		}
		m.at[machine.ID] = known[key]
	}
	g.draw(m, places)
	return m
}

// draw names the places, brings them into the order of their names, and measures between them.
func (g *Graph) draw(m *Map, places [][]spot) {
	names := make([]string, len(places))
	order := make([]int, len(places)) // new → old
	for i, spots := range places {
		names[i], order[i] = g.name(spots), i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(words.Naturally(names[a], names[b]), cmp.Compare(a, b)) })
	was := make([]int, len(places)) // old → new
	up := map[int]int{}
	for _, l := range g.Links {
		up[l.A] += l.Count
		up[l.B] += l.Count
	}
	near, measured := g.neighbours(), map[int][]int{}
	for i, old := range order {
		was[old] = i
		p := Place{Name: names[old]}
		if i > 0 && m.Places[i-1].Name == p.Name || i > 0 && strings.HasPrefix(m.Places[i-1].Name, p.Name+" (") {
			p.Name = fmt.Sprintf("%s (%s)", p.Name, g.ids(places[old]))
		}
		for k, s := range places[old] {
			if k == 0 || up[s.leaf] < p.Up {
				p.Up = up[s.leaf]
			}
			if measured[s.leaf] == nil {
				measured[s.leaf] = g.from(s.leaf, near)
			}
		}
		m.Places = append(m.Places, p)
	}
	for id, old := range m.at {
		m.at[id] = was[old]
	}
	m.hops = make([][]int, len(places))
	for i := range m.hops {
		m.hops[i] = make([]int, len(places))
		for j := range i {
			m.hops[i][j] = apart(places[order[i]], places[order[j]], measured)
			m.hops[j][i] = m.hops[i][j]
		}
	}
}

func (g *Graph) name(spots []spot) string {
	var names []string
	for _, s := range spots {
		if name := g.Switches[s.leaf].String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// ids tells switches of the same name apart.
func (g *Graph) ids(spots []spot) string {
	ids := lists.Map(spots, func(s spot) string { return g.Switches[s.leaf].ID })
	return strings.Join(slices.Compact(ids), "+")
}

// apart is how far two places are: rail by rail, and the longest way counts, since a job's ranks wait for the last. Places
// without a rail in common are as far as their nearest leaves.
func apart(a, b []spot, measured map[int][]int) int {
	most, least := Unreachable, Unreachable
	common := false
	for _, x := range a {
		for _, y := range b {
			hops := measured[x.leaf][y.leaf]
			if x.rail == y.rail {
				if hops == Unreachable {
					return Unreachable
				}
				common, most = true, max(most, hops)
			}
			if hops != Unreachable && (least == Unreachable || hops < least) {
				least = hops
			}
		}
	}
	if common {
		return most
	}
	return least
}

// At is the place of a machine, by its ID.
func (m *Map) At(machine string) (int, bool) {
	if m == nil {
		return 0, false
	}
	at, known := m.at[machine]
	return at, known
}

// Hops between two places; 0 in one. See Graph.Hops.
func (m *Map) Hops(a, b int) int { return m.hops[a][b] }
