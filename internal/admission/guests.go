package admission

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kit/words"
	"muster/internal/place"
	"muster/internal/spec"
)

// avoidFor is how long a cluster's nodes stay away from a host on which one of them has failed, if there are others.
const avoidFor = 10 * time.Minute

// room is a hypervisor as admission sees it: what it has, and what its guests hold.
type room struct {
	machine machine.Machine
	place.Room
}

// rooms are the machines on which guests can be placed now: hypervisors, and free whole machines, which become hypervisors by
// that, if there is an image that makes them so.
func (a *Admission) rooms(machines []machine.Machine, arch string) []room {
	_, missing := a.Images.Image(inventory.HypervisorImage)
	held := map[string][]place.Allocation{}
	for _, m := range machines {
		if m.Allocation != nil {
			held[m.Host] = append(held[m.Host], *m.Allocation)
		}
		if m.Moves != nil {
			held[m.Moves.Host] = append(held[m.Moves.Host], m.Moves.Allocation)
		}
	}
	var all []room
	for _, m := range machines {
		holds := m.Hosts && m.Well() || m.CanHost() && missing == nil
		if holds && (arch == "" || m.Facts.Arch == arch) {
			cores, memory := m.Facts.Kept()
			all = append(all, room{m, place.Room{Facts: m.Facts, Keep: cores, KeepMiB: memory, Held: held[m.ID],
				Lost: m.Facts.Lost()}})
		}
	}
	return all
}

// guestOf is what a member asks of its host, if its class is of hypervisors.
func guestOf(m member, class inventory.Class) place.Guest {
	return host.Asked(*cmp.Or(m.vm, &spec.VM{CPUs: class.Shape.CPUs, Memory: class.Shape.Memory}), max(class.Overcommit, 1))
}

// guestShortage says that the hypervisors of a class cannot take all guests that are asked of it.
type guestShortage struct {
	class string
	lacks int
	*place.GuestShortage
}

// placeGuests finds a host for every member whose class is of hypervisors, and what it has of it: which are the places in
// placed of those. The error is a *guestShortage, a *Refusal, or place.ErrLooks.
func (a *Admission) placeGuests(members []member, which []int, machines []machine.Machine, isolation, arch string,
	placed []Placed, looks *place.Looks) error {
	names, whole := map[string]bool{}, map[string]bool{} // machines chosen whole for others of the same plan
	for _, m := range machines {
		names[m.Name] = true
	}
	for _, p := range placed {
		whole[p.Machine.ID] = true
	}
	all := slices.DeleteFunc(a.rooms(machines, arch), func(r room) bool { return whole[r.machine.ID] })
	for len(which) > 0 {
		first := members[which[0]]
		n := 1
		for n < len(which) && first.wakes == nil && members[which[n]].wakes == nil && members[which[n]].Class == first.Class &&
			members[which[n]].path == first.path {
			n++
		}
		class, _ := a.classOf(first, isolation)
		if first.wakes == nil && !looks.Take(place.PerMachine*len(all)) {
			return place.ErrLooks
		}
		var hosts []place.Host
		var of []int // its place in all
		for i, r := range all {
			if (first.wakes == nil || r.machine.ID == first.wakes.HostID) && class.Has(r.machine.Machine) {
				hosts, of = append(hosts, place.Host{Name: r.machine.Name, Room: r.Room}), append(of, i)
			}
		}
		g := guestOf(first, class)
		var found []place.Placed
		var err error
		onOne := false
		if first.fabric != nil && first.wakes == nil && (first.policy == place.Compact || first.policy == place.SameSwitch) {
			found, onOne = onOneSwitch(first, g, n, hosts, func(i int) string { return all[of[i]].machine.ID },
				looks)
		}
		if looks.Spent() {
			return place.ErrLooks
		}
		if !onOne && first.policy == place.SameSwitch && first.wakes == nil {
			return refuse(NoCapacity, "no-switch", first.path,
				fmt.Sprintf("class %s: %d on one switch asked, and on no switch have hosts room for so many", first.Class, n),
				"placement: compact takes as few switches as it can")
		}
		if !onOne {
			found, err = spread(g, n, hosts, looks)
		}
		var short *place.GuestShortage
		if errors.As(err, &short) && first.wakes != nil {
			return first.noMemoryDisk(machines, hosts, short)
		}
		if errors.As(err, &short) {
			return &guestShortage{first.Class, n - len(found), short}
		}
		if err != nil {
			return err
		}
		for k, f := range found {
			r := &all[of[f.Host]]
			m := members[which[k]]
			guest := newGuest(a.Substrates.Guests(), r.machine, f.Allocation, g, names)
			if m.wakes != nil {
				guest.ID, guest.Name, guest.Allocation.Guest = m.wakes.MachineID, m.wakes.Machine, m.wakes.Machine
			}
			r.Held = append(r.Held, guest.Allocation)
			placed[which[k]] = Placed{wakes: m.wakes, Name: m.Name, Role: m.Role, Queue: m.Queue, Class: m.Class,
				Machine: guest.Machine, guest: &guest, vm: m.vm}
		}
		which = which[n:]
	}
	return nil
}

// spread gives guests their hosts. Those that may share cores do so only where no core is free any more.
func spread(g place.Guest, n int, hosts []place.Host, looks *place.Looks) ([]place.Placed, error) {
	alone := g
	alone.Share = 1
	placed, err := place.PlaceGuests(alone, n, hosts, looks)
	if err == nil || g.Share == 1 {
		return share(placed, g.Share), err
	}
	for _, p := range share(placed, g.Share) {
		held := &hosts[p.Host].Room.Held
		*held = append(slices.Clone(*held), p.Allocation)
	}
	rest, err := place.PlaceGuests(g, n-len(placed), hosts, looks)
	var short *place.GuestShortage
	if errors.As(err, &short) { // says how it is with all of them
		short.Asked, short.Fit = n, len(placed)+short.Fit
	}
	return append(placed, rest...), err
}

// share lets as many guests have the cores of what was placed.
func share(placed []place.Placed, guests int) []place.Placed {
	for i := range placed {
		placed[i].Allocation.Share = guests
	}
	return placed
}

// newGuest is a guest that is to be, under the host's name and the lowest number that is free.
func newGuest(on string, m machine.Machine, h place.Allocation, asked place.Guest, names map[string]bool) host.Guest {
	name := ""
	for number := 1; name == "" || names[name]; number++ {
		name = fmt.Sprintf("%s-g%d", m.Name, number)
	}
	names[name] = true
	h.Guest = name
	facts := host.PartFacts(m.Facts, h, asked.CPUs, asked.MemoryMiB)
	return host.Guest{Machine: inventory.Machine{ID: core.NewID("m"), Name: name, Substrate: on, Host: m.ID, Facts: facts},
		Allocation: h}
}

// partWords says what a guest is: "part of box-hv: 2 CPUs, 2048 MiB, 0000:41:00.0".
func (p Placed) partWords() string {
	f := p.Machine.Facts
	text := fmt.Sprintf("a guest with %s, %d MiB", words.Count(f.CPUs, "CPU"), f.MemoryMiB)
	for _, d := range f.Devices {
		text += fmt.Sprintf(", %s %s", d.Kind, d.PCI)
	}
	return text
}

// chooseElsewhere is choose for nodes that replace others: on other hosts than those that have failed some, if that is possible.
func (a *Admission) chooseElsewhere(missing []member, machines []machine.Machine, avoided map[string]bool,
	isolation string, looks *place.Looks) ([]Placed, error) {
	if len(avoided) > 0 {
		others := slices.DeleteFunc(slices.Clone(machines), func(m machine.Machine) bool { return avoided[m.ID] })
		placed, err := a.choose(missing, others, isolation, "", true, looks)
		if refusal, _ := asRefusal(err); refusal == nil || looks.Spent() {
			return placed, err
		}
	}
	return a.choose(missing, machines, isolation, "", true, looks)
}

// Defaults are what a site whose machines are of these substrates fills into cluster files.
func Defaults(c inventory.Catalogue, substrates substrate.Registry) spec.Defaults {
	d := spec.Defaults{Project: c.Project, Site: c.Site, Image: c.Image, Class: c.Class, HeadClass: c.Head,
		LeaseFor: c.Leases.Default, HomeSize: c.Home, Classes: map[string]string{}, Shapes: map[string]spec.VM{}}
	for _, f := range substrates {
		switch {
		case f.Caps.Guest:
			d.Classes[f.Name] = c.VM
			continue
		case f.Caps.WholeMachine:
			d.Classes[f.Name] = c.FirstOn(f.Name)
		}
		d.Undivided = append(d.Undivided, f.Name)
	}
	for _, class := range c.Classes {
		if class.Hypervisor {
			d.Shapes[class.Name] = spec.VM{CPUs: class.Shape.CPUs, Memory: class.Shape.Memory}
		}
	}
	return d
}

// refuseGuests explains why hypervisors cannot carry what is asked of their class.
func (a *Admission) refuseGuests(short *guestShortage, members []member, machines []machine.Machine) *Refusal {
	class, _ := a.Catalogue.Find(short.class)
	path, there, whole, aside := "", 0, 0, map[string]int{}
	for _, m := range members {
		if m.Class == short.class {
			path = m.path
		}
	}
	for _, m := range machines {
		if !class.Has(m.Machine) || m.IsGuest() {
			continue
		}
		if !m.Hosts && m.BootsFromNetwork() {
			whole++
		}
		if m.Hosts || m.BootsFromNetwork() {
			there++
			if !m.Well() || m.Holder != "" {
				aside[availability(m)]++
			}
		}
	}
	if _, missing := a.Images.Image(inventory.HypervisorImage); missing != nil && whole > 0 {
		return refuse(NoCapacity, "no-capacity", path,
			fmt.Sprintf("class %s: %d asked, but its machines cannot become hypervisors without the image %s", short.class,
				short.Asked, inventory.HypervisorImage),
			"`muster images build "+inventory.HypervisorImage+"` builds it")
	}
	if there == 0 {
		return refuse(NoCapacity, "no-capacity", path, fmt.Sprintf("class %s: %d asked, but it has no hypervisors", short.class,
			short.Asked),
			"`muster serve --local-hypervisor` makes the controller's host a hypervisor")
	}
	text := fmt.Sprintf("class %s: %s", short.class, short.GuestShortage)
	if len(short.Reasons) == 0 { // none of them can be asked now; what follows says why
		text = fmt.Sprintf("class %s: %d asked, %d fit", short.class, short.Asked, short.Fit)
	}
	for _, state := range slices.Sorted(maps.Keys(aside)) {
		text += fmt.Sprintf(", %s %s", words.Count(aside[state], "host"), state)
	}
	return refuse(NoCapacity, "no-capacity", path, text, "`muster machines list` shows hosts and their guests")
}

// wouldBecomeHypervisor says better why there is no room where there would be, if a machine became a hypervisor: those that are
// free stay whole as long as somebody has reserved machines for a time to come, since nothing tells when the guests would be
// gone.
func wouldBecomeHypervisor(err error, placed []Placed, members []member, machines []machine.Machine) error {
	if refusal, _ := asRefusal(err); refusal == nil || refusal.Kind != NoCapacity {
		return err
	}
	for i, p := range placed {
		if p.guest != nil && slices.ContainsFunc(machines, func(m machine.Machine) bool {
			return m.ID == p.guest.Host && m.CanHost()
		}) {
			return refuse(NoCapacity, "reserved", members[i].path,
				fmt.Sprintf("class %s: its hypervisors have no room, and no free machine becomes one while machines are "+
					"reserved for later", p.Class),
				"`muster calendar` shows who has reserved machines")
		}
	}
	return err
}

// partly says that a member can only be a guest: of it nothing is promised for a time to come.
func (a *Admission) partly(m member) bool {
	for _, name := range m.classes() {
		if class, _ := a.Catalogue.Find(name); !class.Hypervisor {
			return false
		}
	}
	return true
}

// knownParts checks that the classes of a file and its isolation agree about whether nodes are machines or parts of them.
func (a *Admission) knownParts(c spec.Cluster) spec.Diagnostics {
	var hypervisors, others []string
	for _, class := range a.Catalogue.Classes {
		if class.Hypervisor {
			hypervisors = append(hypervisors, class.Name)
		} else {
			others = append(others, class.Name)
		}
	}
	known := "there is none; the site file makes one by hypervisor: true"
	if len(hypervisors) > 0 {
		known = "there are " + strings.Join(hypervisors, ", ")
	}
	guests := a.Substrates.Of(c.Isolation).Guest
	var ds spec.Diagnostics
	wrong := func(path, text, hint string) {
		ds = append(ds, spec.Diagnostic{Code: "wrong-class", Path: path, Text: text, Hint: hint})
	}
	if slices.Contains(hypervisors, c.Head.Class) {
		wrong("head.class", fmt.Sprintf(
			"class %s makes virtual machines; a head cannot be one, since the cluster's files would be lost with it",
			c.Head.Class), "write head: {class: "+a.Catalogue.Head+"}")
	}
	for i, q := range c.Queues {
		parts := 0
		for j, name := range q.Classes() {
			path := fmt.Sprintf("queues[%d].class", i)
			if j > 0 {
				path = fmt.Sprintf("queues[%d].or[%d]", i, j-1)
			}
			hypervisor := slices.Contains(hypervisors, name)
			if hypervisor {
				parts++
			}
			switch {
			case guests && slices.Contains(others, name):
				wrong(path, fmt.Sprintf("class %s has whole machines, but isolation is %s", name, c.Isolation),
					"classes of virtual machines: "+known)
			case hypervisor && a.whole(c.Isolation):
				wrong(path, fmt.Sprintf("class %s makes virtual machines, but isolation is %s", name, c.Isolation),
					"write isolation: auto, or another class")
			}
		}
		if q.VM != nil && parts == 0 && !guests {
			wrong(fmt.Sprintf("queues[%d].vm", i), fmt.Sprintf("class %s makes nodes of whole machines", q.Class),
				"classes of virtual machines: "+known)
		}
	}
	return ds
}

// Roomy are the machines of a class that hold guests, or can, and that have room for one more guest of its usual size, by ID.
func (a *Admission) Roomy(class inventory.Class, machines []machine.Machine) map[string]bool {
	roomy := map[string]bool{}
	for _, r := range a.rooms(machines, "") {
		if !class.Has(r.machine.Machine) {
			continue
		}
		if _, err := place.Hold(r.Room, guestOf(member{}, class)); err == nil {
			roomy[r.machine.ID] = true
		}
	}
	return roomy
}

// Share is what a hypervisor's guests hold of it.
type Share struct {
	Guests    int
	Cores     int // held by any guest, once each
	OfCores   int // that guests can have
	MemoryMiB int
	OfMiB     int
	Devices   map[string]int // by kind
	OfDevices map[string]int
}

// ShareOf counts what is held of a host by its guests, which are among the machines.
func ShareOf(host machine.Machine, machines []machine.Machine) Share {
	s := Share{Devices: map[string]int{}, OfDevices: map[string]int{}}
	kept, keptMiB := host.Facts.Kept()
	s.OfCores = len(host.Facts.Layout) - len(kept)
	for _, n := range host.Facts.NUMA {
		s.OfMiB += n.MemoryMiB - keptMiB[n.ID]
	}
	kinds := map[string]string{}
	for _, d := range host.Facts.Devices {
		kinds[d.PCI] = d.Kind
		if d.Host == "" && d.Group != "" && d.Kind != "bridge" && d.Kind != "other" {
			s.OfDevices[d.Kind]++
		}
	}
	cores := map[int]bool{}
	for _, m := range machines {
		h := m.Allocation
		switch {
		case m.Moves != nil && m.Moves.Host == host.ID: // it comes
			h = &m.Moves.Allocation
		case m.Host != host.ID:
			continue
		}
		s.Guests++
		if h == nil {
			continue
		}
		for _, cell := range h.Cells {
			s.MemoryMiB += cell.MemoryMiB
			for _, core := range cell.Cores {
				cores[core] = true
			}
		}
		for _, pci := range h.Devices {
			s.Devices[kinds[pci]]++
		}
	}
	s.Cores = len(cores)
	return s
}
