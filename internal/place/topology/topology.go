// Package topology reads how a fabric is cabled: which switch each host's port hangs on, and how far switches are from each
// other. Pure: no I/O, the same answer for the same text.
//
// What enters: a snapshot of a fabric, as ibnetdiscover or lldpctl print it, and which adapters machines have. What leaves:
// the graph, its leaves, hops and rails, and a Map: where machines lie, in the words that placement and schedulers need.
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

// Unreachable is the number of hops to where no way is known.
const Unreachable = -1

// assumed are the hops between two switches of a graph that knows no link between any: one switch above them.
const assumed = 2

// Graph is a fabric at one moment. The zero value is an empty one.
type Graph struct {
	Switches []Switch `json:"switches"`        // by ID
	Ports    []Port   `json:"ports"`           // of hosts, by host and rail
	Links    []Link   `json:"links,omitempty"` // between switches, each pair once
}

// Switch is one; its place in Graph.Switches is how ports and links name it.
type Switch struct {
	ID   string `json:"id"` // on InfiniBand its GUID, on Ethernet its chassis' address
	Name string `json:"name,omitempty"`
}

// String is the switch's name, or its ID where it has none.
func (s Switch) String() string { return cmp.Or(s.Name, s.ID) }

// Port is a host's end of a cable.
type Port struct {
	GUID      fabric.GUID `json:"guid,omitzero"`    // on InfiniBand the port's own, which partitions name
	Adapter   fabric.GUID `json:"adapter,omitzero"` // on InfiniBand its node's, which a machine's facts have
	Host      string      `json:"host"`             // as the host names itself
	Interface string      `json:"interface,omitempty"`
	// which of the host's ports, from 0: the same number on all hosts for ports of the same name
	Rail   int    `json:"rail"`
	Switch int    `json:"switch"`       // its leaf, in Graph.Switches
	At     string `json:"at,omitempty"` // which port of the leaf
}

// String is the port's GUID, or its host and interface where it has none.
func (p Port) String() string {
	if p.GUID == 0 {
		return p.Host + "/" + p.Interface
	}
	return p.GUID.String()
}

// Link is all cables between two switches.
type Link struct {
	A     int `json:"a"` // in Graph.Switches, the lower one
	B     int `json:"b"`
	Count int `json:"n"`
}

// neighbours are the switches that each switch has a link to.
func (g *Graph) neighbours() [][]int {
	near := make([][]int, len(g.Switches))
	for _, l := range g.Links {
		near[l.A], near[l.B] = append(near[l.A], l.B), append(near[l.B], l.A)
	}
	return near
}

// from are the hops from one switch to all: how many links between switches the shortest way has, 0 for ports of the same leaf, 2
// for leaves below one spine, 4 over a third level. (Who counts the switches on the way has one more.) It is Unreachable where
// there is no way; a graph that knows no link between any switches, as one read from hosts by LLDP, has 2 between all of them.
func (g *Graph) from(start int, near [][]int) []int {
	hops := make([]int, len(g.Switches))
	for i := range hops {
		hops[i] = Unreachable
		if len(g.Links) == 0 {
			hops[i] = assumed
		}
	}
	hops[start] = 0
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		for _, next := range near[queue[0]] {
			if hops[next] == Unreachable {
				hops[next] = hops[queue[0]] + 1
				queue = append(queue, next)
			}
		}
	}
	return hops
}

// Leaves is how many switches have hosts.
func (g *Graph) Leaves() int {
	seen := lists.SetBy(g.Ports, func(p Port) int { return p.Switch })
	return len(seen)
}

// String says how large the fabric is.
func (g *Graph) String() string {
	hosts := lists.SetBy(g.Ports, func(p Port) string { return p.Host })
	return fmt.Sprintf("%d hosts with %d ports on %d leaves, %d switches", len(hosts), len(g.Ports), g.Leaves(), len(g.Switches))
}

// Check says what is wrong with a graph that comes from outside: everything else here trusts its numbers.
func (g *Graph) Check() error {
	inside := func(i int) bool { return i >= 0 && i < len(g.Switches) }
	for _, p := range g.Ports {
		if !inside(p.Switch) {
			return fmt.Errorf("port %s of %s hangs on switch %d of %d", p.GUID, p.Host, p.Switch, len(g.Switches))
		}
	}
	for _, l := range g.Links {
		if !inside(l.A) || !inside(l.B) || l.A >= l.B || l.Count < 1 {
			return fmt.Errorf("%d links between switches %d and %d of %d", l.Count, l.A, l.B, len(g.Switches))
		}
	}
	return nil
}

// Read reads a snapshot in either of its spellings: lldpctl's has lines that begin with "machine=" or "lldp.". Errors name
// the line.
func Read(text string) (*Graph, error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, machineKey) || strings.HasPrefix(line, lldpKey) {
			return ParseLLDP(text)
		}
	}
	return Parse(text)
}

// order sorts what was read, and gives ports their rails: the rank of their names among all names in the fabric.
func (g *Graph) order(rail func(Port) string) {
	names := lists.Map(g.Ports, rail)
	slices.SortFunc(names, words.Naturally)
	names = slices.Compact(names)
	for i, p := range g.Ports {
		g.Ports[i].Rail, _ = slices.BinarySearchFunc(names, rail(p), words.Naturally)
	}
	slices.SortFunc(g.Ports, func(a, b Port) int {
		return cmp.Or(words.Naturally(a.Host, b.Host), cmp.Compare(a.Rail, b.Rail), cmp.Compare(a.GUID, b.GUID),
			cmp.Compare(a.Interface, b.Interface))
	})
	slices.SortFunc(g.Links, func(a, b Link) int { return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)) })
}
