package admission

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/kit/words"
	"muster/internal/place"
	"muster/internal/protocol"
)

// mostLooked is how much is looked at for one request, in the steps that place counts: half a second's work, while no other
// transaction can write.
const mostLooked = 1 << 24

// lookedEach is the same for each of several choices that one request makes.
const lookedEach = mostLooked / 8

// perMember is what it costs to ask for a member once, in those steps.
const perMember = 16

// choose finds a machine for every member of a cluster; more says that they come on top of others. Where a class is exhausted,
// members that may be of another one are, node by node, in the order of their classes. The error is a *Refusal that counts what
// the class has, and why it is not free.
func (a *Admission) choose(members []member, machines []machine.Machine, isolation, arch string, more bool,
	looks *place.Looks) ([]Placed, error) {
	var free []inventory.Machine
	for _, m := range machines {
		if m.Free() && (arch == "" || m.Facts.Arch == arch) {
			free = append(free, m.Machine)
		}
	}
	members = slices.Clone(members)
	var first *Refusal
	for {
		placed, err := a.match(members, machines, free, isolation, arch, looks)
		if errors.Is(err, place.ErrLooks) {
			return nil, cmp.Or(first, tooMuch(members))
		}
		var refusal *Refusal
		var class string
		var lacks int
		if short := (*place.Shortage)(nil); errors.As(err, &short) {
			refusal = a.shortage(short, members, machines, isolation, arch, more)
			class, lacks = short.Class, short.Lacks
		} else if short := (*place.Apart)(nil); errors.As(err, &short) {
			refusal = apart(short, members)
			class = short.Class
		} else if short := (*guestShortage)(nil); errors.As(err, &short) {
			refusal = a.refuseGuests(short, members, machines)
			class, lacks = short.class, short.lacks
		} else {
			return placed, err
		}
		if first == nil {
			first = refusal
		}
		if lacks > 0 && fallBack(members, class, lacks) || lacks == 0 && fallBackWhole(members, class) {
			continue
		}
		if refusal != first {
			first.Diagnostics[0].Text += "; instead, " + refusal.Diagnostics[0].Text
		}
		first.lacks = lacks
		return nil, first
	}
}

// tooMuch refuses what costs too much to find out.
func tooMuch(members []member) *Refusal {
	return refuse(Invalid, "too-much", members[len(members)-1].path,
		fmt.Sprintf("machines for %s: %s", words.Count(len(members), "node"), place.ErrLooks),
		"fewer queues, or queues with fewer classes each, would work")
}

// fitting chooses for as many members as it can, from the first on; refused says why not for all.
func fitting(members []member, choose func([]member) ([]Placed, error)) (placed []Placed, refused *Refusal, err error) {
	if placed, err = choose(members); err == nil {
		return placed, nil, nil
	}
	if refused, err = asRefusal(err); err != nil {
		return nil, nil, err
	}
	for low, high := 0, len(members)-1; low < high; {
		middle := (low + high + 1) / 2
		some, err := choose(members[:middle])
		if err == nil {
			low, placed = middle, some
			continue
		}
		if _, err := asRefusal(err); err != nil {
			return nil, nil, err
		}
		high = middle - 1
	}
	return placed, refused, nil
}

// match finds for every member a machine of its class, or a part of one. The error is a *place.Shortage, a
// *place.Apart, a *guestShortage, a *Refusal, or place.ErrLooks.
func (a *Admission) match(members []member, machines []machine.Machine, free []inventory.Machine, isolation, arch string,
	looks *place.Looks) ([]Placed, error) {
	if !looks.Take(perMember*len(members) + place.PerMachine*len(machines)) {
		return nil, place.ErrLooks
	}
	var wants []place.Want
	var wholes, parts []int // places in members
	for i, m := range members {
		class, ok := a.classOf(m, isolation)
		if !ok {
			return nil, refuse(Invalid, "unknown-class", m.path, fmt.Sprintf("there is no class %q", m.Class),
				"there are "+strings.Join(a.Catalogue.Names(), ", "))
		}
		if class.Hypervisor {
			parts = append(parts, i)
			continue
		}
		if len(wholes) == 0 || members[wholes[len(wholes)-1]].Class != m.Class || members[wholes[len(wholes)-1]].path != m.path {
			wants = append(wants, place.Want{Class: class, Policy: m.policy, Map: m.fabric, Beside: m.beside, Group: m.Queue})
		}
		wants[len(wants)-1].Nodes++
		wholes = append(wholes, i)
	}
	chosen, err := place.Choose(wants, free, looks)
	if err != nil {
		return nil, err
	}
	placed := make([]Placed, len(members))
	for i, machine := range slices.Concat(chosen...) {
		m := members[wholes[i]]
		placed[wholes[i]] = Placed{Name: m.Name, Role: m.Role, Queue: m.Queue, Class: m.Class, Machine: machine}
	}
	if err := a.placeGuests(members, parts, machines, isolation, arch, placed, looks); err != nil {
		return nil, err
	}
	for i := range placed {
		placed[i].leaf, placed[i].leafNumber = leafOf(members[i], placed[i])
	}
	return placed, nil
}

// fallBack lets as many members as a class lacks nodes be of their next class, the last ones first; if none of that class may
// be of another, then as many of other queues, whose classes may overlap with it: each gives back one machine at most. It says
// whether there was any.
func fallBack(members []member, class string, lacks int) bool {
	moved, asking := 0, map[string]bool{} // the fields that ask for the class
	for i := len(members) - 1; i >= 0; i-- {
		m := &members[i]
		if m.Class != class {
			continue
		}
		if asking[m.path] = true; len(m.or) > 0 && moved < lacks {
			if m.policy == place.SameSwitch {
				fallBackWhole(members, class)
				moved = lacks
				continue
			}
			m.Class, m.or = m.or[0], m.or[1:]
			moved++
		}
	}
	if moved > 0 {
		return true
	}
	for i := len(members) - 1; i >= 0 && moved < lacks; i-- {
		if m := &members[i]; len(m.or) > 0 && !asking[m.path] {
			m.Class, m.or = m.or[0], m.or[1:]
			moved++
		}
	}
	return moved > 0
}

// classes are the names of all classes that a member may be of, in order.
func (m member) classes() []string { return append([]string{m.Class}, m.or...) }

// classOf is a member's class, narrowed to what the cluster's isolation lets its compute nodes be. The head, which runs no jobs,
// may always be on a service host.
func (a *Admission) classOf(m member, isolation string) (inventory.Class, bool) {
	class, ok := a.Catalogue.Find(m.Class)
	if m.Role == protocol.Compute && a.whole(isolation) {
		class = class.On(isolation)
	}
	return class, ok
}

// whole says that an isolation asks for the machines of one substrate, and not for parts of any.
func (a *Admission) whole(isolation string) bool {
	asked, known := a.Substrates.Find(isolation)
	return known && !asked.Caps.Guest
}

// byNumber is the substrate whose machines are of a class whatever they are like, and are made by their number; "" if none is.
func (a *Admission) byNumber(class inventory.Class) string {
	for _, f := range a.Substrates {
		if f.Caps.Enrols == substrate.ByNumber && class.Has(inventory.Machine{Substrate: f.Name}) {
			return f.Name
		}
	}
	return ""
}

// shortage explains why a class cannot give what is asked: "class epyc-ib: 16 asked, 12 free, 2 quarantined, 1 in use".
func (a *Admission) shortage(short *place.Shortage, members []member, machines []machine.Machine, isolation, arch string,
	more bool) *Refusal {
	var class inventory.Class // as the last member that asks for it
	for _, m := range members {
		if m.Class == short.Class {
			class, _ = a.classOf(m, isolation)
		}
	}
	counts, otherArch := map[string]int{}, 0
	for _, m := range machines {
		switch {
		case !class.Has(m.Machine):
		case m.Free() && arch != "" && m.Facts.Arch != arch:
			otherArch++
		default:
			counts[availability(m)]++
			counts["total"]++
		}
	}
	asked, path := 0, "" // the last field that asks for the class
	for _, m := range members {
		if m.Class == short.Class {
			asked, path = asked+1, m.path
		}
	}
	word := "asked"
	if more {
		word = "more asked"
	}
	text := fmt.Sprintf("class %s: %d %s, %d free", short.Class, asked, word, counts["free"])
	if counts["free"] >= asked {
		text += fmt.Sprintf(" of which %d are needed by other classes", counts["free"]-short.Free)
	}
	for _, state := range []string{"in use", beingPrepared, "quarantined", "in maintenance"} {
		if counts[state] > 0 {
			text += fmt.Sprintf(", %d %s", counts[state], state)
		}
	}
	if otherArch > 0 {
		text += fmt.Sprintf(", %d of another architecture than the image's %s", otherArch, arch)
	}
	hint := "`muster machines list` shows what they do"
	switch {
	case len(machines) > 0 && counts["total"] == 0 && a.byNumber(class) != "":
		hint = "no machine is of that class; `muster machines add --" + a.byNumber(class) + " 1` enrols this host as one"
	case len(machines) == 0:
		hint = "the inventory is empty; `muster machines add --local 4` enrols this host as 4 machines"
	}
	return refuse(NoCapacity, "no-capacity", path, text, hint)
}

// beingPrepared is the availability of a machine between two clusters, or before its first.
const beingPrepared = "being prepared"

// availability is a machine's state in the words of a shortage.
func availability(m machine.Machine) string {
	switch {
	case m.Free():
		return "free"
	case m.Phase == machine.Quarantined:
		return "quarantined"
	case m.Phase == machine.Maintenance || m.Desired != machine.ForService:
		return "in maintenance"
	case m.Holder != "", m.HostsOnDemand() && (m.Phase == machine.Reserved || m.Phase == machine.InUse): // by its guests
		return "in use"
	}
	return beingPrepared
}
