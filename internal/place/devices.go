package place

import (
	"cmp"
	"slices"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// offer is a device that can be given.
type offer struct {
	inventory.Device
	port    string // the root port that it is below; "": none
	sharing int    // guests on the same adapter, of a virtual function
	fellows int    // other offers of its IOMMU group
	others  int    // offers of other kinds below its root port
}

// offers are the devices of a room that can be given now, by address. These cannot:
//
//   - bridges, and what no IOMMU holds in its place;
//   - what is held, lost, or the host's, and with it all of its IOMMU group, bridges aside: within a group nothing keeps one
//     function from another's memory. So the rest of a group that a guest has a part of is out of others' reach;
//   - an adapter that has been divided into virtual functions, which would be gone with it, and virtual functions of an
//     adapter that is held or lost as a whole.
func offers(r Room) []offer {
	held, gone := map[string]bool{}, map[string]bool{}
	for _, h := range r.Held {
		for _, pci := range h.Devices {
			held[pci], gone[pci] = true, true
		}
	}
	for _, pci := range r.Lost {
		gone[pci] = true
	}
	closed, divided, sharing := map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, d := range r.Facts.Devices {
		if d.Kind != "bridge" && (gone[d.PCI] || d.Host != "") {
			closed[d.Group] = true
		}
		if d.Parent != "" {
			divided[d.Parent] = true
			if held[d.PCI] {
				sharing[d.Parent]++
			}
		}
	}
	closed[""] = true // no group: no IOMMU

	var list []offer
	fellows, kinds, below := map[string]int{}, map[[2]string]int{}, map[string]int{}
	for _, d := range r.Facts.Devices {
		if d.Kind == "bridge" || closed[d.Group] || divided[d.PCI] || gone[d.Parent] {
			continue
		}
		o := offer{Device: d, sharing: sharing[d.Parent]}
		if len(d.Path) > 0 {
			o.port = d.Path[0]
		}
		list = append(list, o)
		fellows[d.Group]++
		below[o.port]++
		kinds[[2]string{o.port, d.Kind}]++
	}
	for i, o := range list {
		list[i].fellows = fellows[o.Group] - 1
		if o.port != "" {
			list[i].others = below[o.port] - kinds[[2]string{o.port, o.Kind}]
		}
	}
	slices.SortFunc(list, func(a, b offer) int { return cmp.Compare(a.PCI, b.PCI) })
	return slices.CompactFunc(list, func(a, b offer) bool { return a.PCI == b.PCI }) // facts that name a device twice
}

// near says that a device is local to one of these NUMA nodes. Where the firmware does not tell its place, it is local
// only on a machine that has but one.
func (s *stock) near(o offer, set []int) bool {
	if o.NUMA < 0 {
		return len(s.nodes) == 1
	}
	return slices.ContainsFunc(set, func(i int) bool { return s.nodes[i].id == o.NUMA })
}

// choose gives the guest its devices, on NUMA nodes for which weigh has found that they are there.
func (s *stock) choose(w want, set []int) []string {
	var chosen []offer
	pick := func(n int, from func(offer) bool) {
		for ; n > 0; n-- {
			best := -1
			for i, o := range s.devices {
				if from(o) && !slices.ContainsFunc(chosen, func(c offer) bool { return c.PCI == o.PCI }) &&
					(best < 0 || slices.Compare(s.price(o, set, chosen), s.price(s.devices[best], set, chosen)) < 0) {
					best = i
				}
			}
			chosen = append(chosen, s.devices[best])
		}
	}
	kinds := w.kinds()
	if w.direct {
		ports, names := s.ports(w, set)
		take, _, _ := pair(ports, w.devices["gpu"], w.devices["hca"])
		for i, t := range take {
			pick(t.gpus, func(o offer) bool { return o.Kind == "gpu" && o.port == names[i] })
			pick(t.hcas, func(o offer) bool { return o.Kind == "hca" && o.port == names[i] })
		}
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == "gpu" || k == "hca" })
	}
	for _, kind := range kinds {
		pick(w.devices[kind], func(o offer) bool { return o.Kind == kind })
	}
	addresses := lists.Map(chosen, func(o offer) string { return o.PCI })
	slices.Sort(addresses)
	return addresses
}

// price is what it costs to give a device next, the gravest first: that it is far; that the guest has a part of the same
// adapter already, whose bandwidth would be one; that its group closes for others; that other guests use the adapter; that
// devices of other kinds, for which a guest may want this neighbour, lose it.
func (s *stock) price(o offer, set []int, chosen []offer) []int {
	p := []int{0, 0, o.fellows, o.sharing, o.others}
	if !s.near(o, set) {
		p[0] = 1
	}
	for _, c := range chosen {
		if o.Parent != "" && c.Parent == o.Parent {
			p[1]++
		}
		if c.Group == o.Group {
			p[2] = 0
		}
		if o.port != "" && c.port == o.port && c.Kind != o.Kind {
			p[4]--
		}
	}
	return p
}

// withheld are the other functions in the IOMMU groups of devices, by address.
func (s *stock) withheld(devices []string) []string {
	groups := map[string]bool{}
	for _, d := range s.all {
		groups[d.Group] = groups[d.Group] || slices.Contains(devices, d.PCI)
	}
	var others []string
	for _, d := range s.all {
		if groups[d.Group] && d.Kind != "bridge" && !slices.Contains(devices, d.PCI) {
			others = append(others, d.PCI)
		}
	}
	slices.Sort(others)
	return others
}
