package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"muster/internal/kit/words"
)

// Host is a hypervisor that guests may be placed on.
type Host struct {
	Name string
	Room Room
}

// Placed is a guest's place: a host, by its place in the list, and what the guest has of it.
type Placed struct {
	Host       int
	Allocation Allocation // without the guest's name
}

// PlaceGuests gives n guests alike their hosts. Each goes where it lies best: on the fewest NUMA nodes, with its devices
// near, by the order that Hold has. Of hosts that are equal to it in that, it goes to the one with the fewest devices that it
// does not want, then to the one with the fewest cores that no guest has, so that hosts are filled one after the other and big
// guests still fit later, then by name.
//
// The hosts are left as they are: who places other guests after these adds the holdings to the hosts' Room.Held. Where not
// all fit the error is a *GuestShortage, and what is placed are those that do; it is ErrLooks, and nothing is placed, where there
// is too much to look at.
//
// Cost: one Hold per host and per guest.
func PlaceGuests(g Guest, n int, hosts []Host, looks *Looks) ([]Placed, error) {
	chances := make([]chance, len(hosts))
	var order []int // places of hosts that can take the next guest, the best first
	compare := func(a, b int) int { return cmp.Or(chances[a].compare(&chances[b]), cmp.Compare(a, b)) }
	for i, h := range hosts {
		if looks.Spent() {
			return nil, ErrLooks
		}
		h.Room.Held = slices.Clone(h.Room.Held)
		chances[i] = chance{name: h.Name, room: h.Room}
		if chances[i].look(g, looks); chances[i].misfit == nil {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, compare)
	var placed []Placed
	for len(placed) < n && len(order) > 0 && !looks.Spent() {
		best := order[0]
		order = order[1:]
		c := &chances[best]
		placed = append(placed, Placed{best, c.allocation})
		c.room.Held = append(c.room.Held, c.allocation)
		if c.look(g, looks); c.misfit == nil {
			at, _ := slices.BinarySearchFunc(order, best, compare)
			order = slices.Insert(order, at, best)
		}
	}
	switch {
	case looks.Spent():
		return nil, ErrLooks
	case len(placed) < n:
		return placed, shortage(n, len(placed), chances)
	}
	return placed, nil
}

// chance is what the next guest would have on a host, or why it cannot be there.
type chance struct {
	name       string
	room       Room
	allocation Allocation
	score      score
	spare      int // devices that could be given
	cores      int // that no guest has
	misfit     *Misfit
}

func (c *chance) look(g Guest, looks *Looks) {
	if c.allocation, c.score, c.misfit = hold(c.room, g, looks); c.misfit != nil {
		return
	}
	s := newStock(c.room, 1)
	c.spare, c.cores = len(s.devices)-len(c.allocation.Devices), 0
	for _, n := range s.nodes {
		c.cores += n.cores
	}
}

// compare puts the better place first: it compares first as Hold does, as far as it is for the guest's good.
func (c *chance) compare(d *chance) int {
	return cmp.Or(slices.Compare(c.score[:scoreStranded], d.score[:scoreStranded]),
		cmp.Compare(c.spare, d.spare), cmp.Compare(c.cores, d.cores), words.Naturally(c.name, d.name))
}

// GuestShortage says that not all guests have a place, and what the hosts are short of.
type GuestShortage struct {
	Asked, Fit int
	Reasons    []Reason // the most frequent first
}

// Reason is why hosts cannot carry another guest.
type Reason struct {
	What  string // as Misfit has it
	Hosts int
	First string // name of the first such host
	Text  string // what it says
}

func (s *GuestShortage) Error() string {
	text := fmt.Sprintf("%d asked, %d fit", s.Asked, s.Fit)
	if len(s.Reasons) == 0 {
		return text + ": there is no hypervisor"
	}
	var reasons []string
	for _, r := range s.Reasons {
		hosts := fmt.Sprintf("%d hosts are ", r.Hosts)
		if r.Hosts == 1 {
			hosts = "1 host is "
		}
		reasons = append(reasons, hosts+r.lack()+" ("+r.First+": "+r.Text+")")
	}
	return text + ": " + strings.Join(reasons, ", ")
}

func (r Reason) lack() string {
	switch r.What {
	case factsShort:
		return "not inspected for guests yet"
	case threadsShort:
		return "without cores of so many CPUs"
	case iommuShort:
		return "without an IOMMU"
	case directShort:
		return "without enough pairs of GPU and HCA"
	case localityShort:
		return "without cores, memory and devices on the same NUMA node"
	}
	return "short of " + r.What
}

func shortage(asked, fit int, chances []chance) *GuestShortage {
	s := &GuestShortage{Asked: asked, Fit: fit}
	slices.SortFunc(chances, func(a, b chance) int { return words.Naturally(a.name, b.name) })
	for _, c := range chances {
		i := slices.IndexFunc(s.Reasons, func(r Reason) bool { return r.What == c.misfit.What })
		if i < 0 {
			i = len(s.Reasons)
			s.Reasons = append(s.Reasons, Reason{What: c.misfit.What, First: c.name, Text: c.misfit.Text})
		}
		s.Reasons[i].Hosts++
	}
	slices.SortStableFunc(s.Reasons, func(a, b Reason) int { return cmp.Compare(b.Hosts, a.Hosts) })
	return s
}
