package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/internal/core"
	"muster/internal/fabric"
	"muster/internal/inventory"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
	"muster/internal/place"
	"muster/internal/place/calendar"
	"muster/internal/place/topology"
	"muster/internal/protocol"
)

// Layout is how a queue's nodes lie in a fabric.
type Layout struct {
	Queue  string
	Fabric string
	place.Layout
}

// String is "cpu: 16 nodes on 2 leaves (leaf01 9, leaf02 7), at most 2 hops apart", and how many nodes share the cables of
// a leaf where that is fewer cables than nodes.
func (l Layout) String() string {
	nodes := 0
	var parts, narrow []string
	for _, p := range l.Places {
		nodes += p.Nodes
		parts = append(parts, fmt.Sprintf("%s %d", p.Place, p.Nodes))
		if p.Up > 0 && p.Up < p.Nodes {
			narrow = append(narrow, fmt.Sprintf("the %d on %s share %s to the others", p.Nodes, p.Place,
				words.Count(p.Up, "cable")))
		}
	}
	text := fmt.Sprintf("%s: %s on ", l.Queue, words.Count(nodes, "node"))
	switch {
	case len(parts) == 1:
		return text + "1 leaf (" + l.Places[0].Place + ")" + l.strangers()
	case l.Hops == topology.Unreachable:
		text += fmt.Sprintf("%d leaves (%s), with no known path between some of them", len(parts), strings.Join(parts, ", "))
	default:
		text += fmt.Sprintf("%d leaves (%s), at most %s apart", len(parts), strings.Join(parts, ", "), words.Count(l.Hops, "hop"))
	}
	if len(narrow) > 0 {
		text += "; " + strings.Join(narrow, ", ")
	}
	return text + l.strangers()
}

func (l Layout) strangers() string {
	if l.Unknown == 0 {
		return ""
	}
	return fmt.Sprintf("; the leaf of %d more is not known", l.Unknown)
}

// knownTopology is what is known of where machines are: a map a fabric, and for guests their hosts.
type knownTopology struct {
	maps []*topology.Map
	of   map[string]string // guest's machine → its host's
}

// loadTopology reads how fabrics are cabled and puts the machines on maps. Where no snapshot was ever imported it costs one query
// that finds nothing.
func loadTopology(ctx context.Context, tx *core.Tx, machines []machine.Machine) (knownTopology, error) {
	cablings, err := fabrics.Topology(ctx, tx)
	if err != nil || len(cablings) == 0 {
		return knownTopology{}, err
	}
	ports, err := fabrics.Ports(ctx, tx, "")
	return newTopology(cablings, machines, ports), err
}

// newTopology puts machines on the maps of fabrics, by the adapters that inspections found in them, and those of ports that an
// operator says are theirs.
func newTopology(cablings []fabrics.Cabling, machines []machine.Machine, ports []fabrics.Port) knownTopology {
	l := knownTopology{of: map[string]string{}}
	assigned := map[string][]fabric.GUID{}
	for _, p := range ports {
		if p.Assigned {
			assigned[p.MachineID] = append(assigned[p.MachineID], p.Adapter)
		}
	}
	var stands []topology.Machine
	for _, m := range machines {
		if m.IsGuest() {
			l.of[m.ID] = m.Host
			continue
		}
		stands = append(stands, topology.Machine{ID: m.ID, Name: m.Name, Adapters: append(adapters(m.Facts), assigned[m.ID]...)})
	}
	for _, c := range cablings {
		l.maps = append(l.maps, c.Graph.Map(c.Fabric, stands))
	}
	return l
}

// Topology is how a fabric is cabled and where the site's machines are in it.
type Topology struct {
	fabrics.Cabling
	Map      *topology.Map
	Machines [][]string // names, by place
}

// Topologies lists those of all fabrics that have an imported snapshot.
func Topologies(ctx context.Context, tx *core.Tx) ([]Topology, error) {
	cablings, err := fabrics.Topology(ctx, tx)
	if err != nil || len(cablings) == 0 {
		return nil, err
	}
	machines, err := machine.List(ctx, tx)
	if err != nil {
		return nil, err
	}
	ports, err := fabrics.Ports(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	l := newTopology(cablings, machines, ports)
	var all []Topology
	for i, m := range l.maps {
		t := Topology{Cabling: cablings[i], Map: m, Machines: make([][]string, len(m.Places))}
		for _, one := range machines {
			if at, known := m.At(one.ID); known {
				t.Machines[at] = append(t.Machines[at], one.Name)
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// adapters are the GUIDs of a machine's own InfiniBand adapters.
func adapters(f inventory.Facts) []fabric.GUID {
	var all []fabric.GUID
	for _, d := range f.Devices {
		if d.GUID == "" || d.Parent != "" {
			continue
		}
		if guid, err := fabric.ParseGUID(d.GUID); err == nil {
			all = append(all, guid)
		}
	}
	return all
}

// at is the machine whose place counts: of a guest its host.
func (l knownTopology) at(machine string) string {
	if host, guest := l.of[machine]; guest {
		return host
	}
	return machine
}

// best is the map that knows most of the machines that are of one of some classes; of equal ones the first by name. nil: none
// knows any.
func (l knownTopology) best(machines []machine.Machine, of [][]bool) *topology.Map {
	var best *topology.Map
	most := 0
	for _, m := range l.maps {
		known := 0
		for i, one := range machines {
			if !slices.ContainsFunc(of, func(has []bool) bool { return has[i] }) {
				continue
			}
			if _, on := m.At(one.ID); on {
				known++
			}
		}
		if known > most {
			best, most = m, known
		}
	}
	return best
}

// locate tells the members of queues where machines are, and which nodes they are to be near to or far from: those of their
// queue, or, where it has none, those of the cluster's others.
func (a *Admission) locate(l knownTopology, members []member, nodes []node.Node, machines []machine.Machine,
	isolation string) []member {
	if len(l.maps) == 0 {
		return members
	}
	members = slices.Clone(members)
	type about struct {
		fabric *topology.Map
		beside []string
	}
	queues := map[string]about{}
	has := map[string][]bool{}
	of := func(m member) []bool { // which machines are of a member's class
		if has[m.Class] == nil {
			class, _ := a.classOf(m, isolation)
			has[m.Class] = make([]bool, len(machines))
			for i, one := range machines {
				has[m.Class][i] = class.Has(one.Machine)
			}
		}
		return has[m.Class]
	}
	for i := range members {
		m := &members[i]
		if m.Role != protocol.Compute {
			continue
		}
		known, done := queues[m.Queue]
		if !done {
			var classes [][]bool
			for _, name := range m.classes() {
				other := *m
				other.Class = name
				classes = append(classes, of(other))
			}
			known.fabric = l.best(machines, classes)
			known.beside = l.mates(m, nodes)
			queues[m.Queue] = known
		}
		m.fabric, m.beside = known.fabric, known.beside
	}
	return members
}

// mates are the machines of the nodes that a queue's new ones are to be beside.
func (l knownTopology) mates(m *member, nodes []node.Node) []string {
	var own, others []string
	for _, n := range nodes {
		switch {
		case n.MachineID == "" || n.Role != protocol.Compute || n.Desired != core.Present || n.Phase == core.Failed:
		case n.Queue == m.Queue:
			own = append(own, l.at(n.MachineID))
		default:
			others = append(others, l.at(n.MachineID))
		}
	}
	if len(own) > 0 || m.policy == place.SameSwitch {
		return own
	}
	return others
}

// staying are the nodes that are not released.
func staying(nodes, released []node.Node) []node.Node {
	going := lists.SetBy(released, func(r node.Node) string { return r.ID })
	return slices.DeleteFunc(slices.Clone(nodes), func(n node.Node) bool { return going[n.ID] })
}

// leafOf is where a member's machine is, and the place's number from 1.
func leafOf(m member, p Placed) (string, int) {
	at, known := m.fabric.At(cmp.Or(p.Machine.Host, p.Machine.ID))
	if !known {
		return "", 0
	}
	return m.fabric.Places[at].Name, at + 1
}

// layouts says how the queues lie that get nodes, with those of their nodes that stay.
func layouts(l knownTopology, members []member, placed []Placed, nodes []node.Node) []Layout {
	var all []Layout
	told := map[string]bool{}
	for _, m := range members {
		if m.fabric == nil || told[m.Queue] {
			continue
		}
		told[m.Queue] = true
		var machines []string
		for _, n := range nodes {
			if n.Queue == m.Queue && n.MachineID != "" && n.Desired == core.Present && n.Phase != core.Failed && !n.Asleep() {
				machines = append(machines, l.at(n.MachineID))
			}
		}
		for _, p := range placed {
			if p.Queue == m.Queue && p.Role == protocol.Compute {
				machines = append(machines, cmp.Or(p.Machine.Host, p.Machine.ID))
			}
		}
		if lay := place.LayoutOf(m.fabric, machines); len(lay.Places) > 0 {
			all = append(all, Layout{Queue: m.Queue, Fabric: m.fabric.Fabric, Layout: lay})
		}
	}
	return all
}

// unheeded lists the queues whose placement has no effect, and why.
func unheeded(members []member, later bool) []string {
	var all []string
	told := map[string]bool{}
	for _, m := range members {
		if m.policy == place.Anywhere || m.policy == "" || told[m.Queue] {
			continue
		}
		told[m.Queue] = true
		switch {
		case later:
			all = append(all, fmt.Sprintf(
				"queue %s: placement %s is decided when the lease starts: a reservation is for a number of machines, not "+
					"for places", m.Queue, m.policy))
		case m.fabric == nil && m.policy != place.SameSwitch:
			all = append(all, fmt.Sprintf(
				"queue %s: placement %s has no effect: Muster does not know the switch of any machine of class %s", m.Queue,
				m.policy, m.Class))
		}
	}
	return all
}

// apart refuses a queue that is to be on one switch.
func apart(short *place.Apart, members []member) *Refusal {
	path := ""
	for _, m := range members {
		if m.Class == short.Class && m.policy == place.SameSwitch {
			path = m.path
		}
	}
	hint := "placement: compact uses as few switches as possible"
	if short.At == "" {
		hint = "placement: any would work; an operator can import the cables with `muster fabric cables import`"
	}
	return refuse(NoCapacity, "no-switch", path, short.Error(), hint)
}

// fallBackWhole lets all members of the queues that are to be on one switch of a class be of their next class: such a queue
// is of one class. It says whether there was any.
func fallBackWhole(members []member, class string) bool {
	moved := false
	for i := range members {
		if m := &members[i]; m.policy == place.SameSwitch && m.Class == class && len(m.or) > 0 {
			m.Class, m.or, moved = m.or[0], m.or[1:], true
		}
	}
	return moved
}

// chosenFirst puts the machines that were chosen by where they are before the others of a calendar, which of machines alike
// gives the first ones.
func chosenFirst(c calendar.Calendar, members []member, placed []Placed) calendar.Calendar {
	chosen := map[string]bool{}
	for i, p := range placed {
		if members[i].fabric != nil && members[i].policy != place.Anywhere {
			chosen[p.Machine.ID] = true
		}
	}
	if len(chosen) == 0 {
		return c
	}
	c.Machines = slices.Clone(c.Machines)
	slices.SortStableFunc(c.Machines, func(x, y calendar.Machine) int {
		switch {
		case chosen[x.ID] && !chosen[y.ID]:
			return -1
		case chosen[y.ID] && !chosen[x.ID]:
			return 1
		}
		return 0
	})
	return c
}

// onOneSwitch places guests on hosts of one switch, the fullest first; ok is false where no switch has room for all of them.
func onOneSwitch(m member, g place.Guest, n int, hosts []place.Host, machine func(i int) string,
	looks *place.Looks) (placed []place.Placed, ok bool) {
	on := map[int][]int{}
	for i := range hosts {
		if p, known := m.fabric.At(machine(i)); known {
			on[p] = append(on[p], i)
		}
	}
	there := map[int]int{}
	for _, id := range m.beside {
		if p, known := m.fabric.At(id); known {
			there[p]++
		}
	}
	var order []int
	for p := range on {
		order = append(order, p)
	}
	slices.SortFunc(order, func(a, b int) int {
		if there[a] != there[b] {
			return there[b] - there[a]
		}
		if len(on[a]) != len(on[b]) {
			return len(on[a]) - len(on[b])
		}
		return a - b
	})
	for k, p := range order {
		if looks.Spent() || k > 0 && m.policy == place.SameSwitch && there[order[0]] > 0 {
			break // where the others are, or nowhere
		}
		some := lists.Map(on[p], func(i int) place.Host { return hosts[i] })
		found, err := spread(g, n, some, looks)
		if err != nil {
			continue
		}
		for i := range found {
			found[i].Host = on[p][found[i].Host]
		}
		return found, true
	}
	return nil, false
}
