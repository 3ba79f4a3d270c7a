package place

import (
	"fmt"
	"slices"

	"muster/internal/inventory"
)

// Check says whether the guests of a room have more of it than there is, or than a guest may have: the invariant behind Hold,
// put in other words. It looks at what was given, not at what has failed since: a core that has gone offline under a guest,
// or a device that is lost, is no over-commitment.
func (r Room) Check() error {
	cores, memory, devices := map[int][]Allocation{}, map[int]int{}, map[string]string{}
	for _, h := range r.Held {
		mine := map[int]bool{}
		for _, c := range h.Cells {
			memory[c.NUMA] += c.MemoryMiB
			for _, core := range c.Cores {
				if mine[core] {
					return fmt.Errorf("guest %s has core %d twice", h.Guest, core)
				}
				mine[core] = true
				cores[core] = append(cores[core], h)
				if err := r.checkCore(core, c.NUMA); err != nil {
					return fmt.Errorf("guest %s: %w", h.Guest, err)
				}
			}
		}
		for _, pci := range slices.Concat(h.Devices, h.Withheld) {
			if other, taken := devices[pci]; taken {
				return fmt.Errorf("device %s is given twice: to %s and to %s", pci, other, h.Guest)
			}
			devices[pci] = h.Guest
		}
	}
	for core, holders := range cores {
		for _, h := range holders {
			if len(holders) > max(h.Share, 1) {
				return fmt.Errorf("core %d has %d guests, and %s shares it among %d", core, len(holders), h.Guest,
					max(h.Share, 1))
			}
		}
	}
	for id, held := range memory {
		there := 0
		for _, n := range r.Facts.NUMA {
			if n.ID == id {
				there = n.MemoryMiB - r.KeepMiB[id]
			}
		}
		if held > there {
			return fmt.Errorf("NUMA node %d: %d MiB of %d are in use", id, held, there)
		}
	}
	for i, h := range r.Held {
		for _, pci := range h.Devices {
			if err := r.checkDevice(pci, i); err != nil {
				return fmt.Errorf("guest %s: %w", h.Guest, err)
			}
		}
	}
	return nil
}

func (r Room) checkCore(id, numa int) error {
	if slices.Contains(r.Keep, id) {
		return fmt.Errorf("core %d is kept by the host", id)
	}
	for _, c := range r.Facts.Layout {
		if c.ID == id && c.NUMA != numa {
			return fmt.Errorf("core %d is on NUMA node %d, not %d", id, c.NUMA, numa)
		}
	}
	return nil
}

// checkDevice looks at one device of the holding with a number, and at all others of the machine beside it.
func (r Room) checkDevice(pci string, allocation int) error {
	at := slices.IndexFunc(r.Facts.Devices, func(d inventory.Device) bool { return d.PCI == pci })
	if at < 0 {
		return nil // gone since
	}
	d := r.Facts.Devices[at]
	switch {
	case d.Kind == "bridge":
		return fmt.Errorf("device %s is a bridge", pci)
	case d.Host != "":
		return fmt.Errorf("device %s is the host's own: %s", pci, d.Host)
	case d.Group == "":
		return fmt.Errorf("device %s has no IOMMU group", pci)
	}
	for _, other := range r.Facts.Devices {
		holder := slices.IndexFunc(r.Held, func(h Allocation) bool { return slices.Contains(h.Devices, other.PCI) })
		switch {
		case other.Parent == pci && (holder >= 0 || other.Host != ""), other.PCI == d.Parent && holder >= 0:
			return fmt.Errorf("devices %s and %s are both in use, and one is a part of the other", pci, other.PCI)
		case other.Group != d.Group || other.Kind == "bridge":
		case other.Host != "":
			return fmt.Errorf("device %s shares IOMMU group %s with %s, which is the host's own: %s", pci, d.Group, other.PCI,
				other.Host)
		case holder >= 0 && holder != allocation:
			return fmt.Errorf("device %s shares IOMMU group %s with %s, which guest %s has", pci, d.Group, other.PCI,
				r.Held[holder].Guest)
		}
	}
	return nil
}

// Grants says whether a holding, which was chosen with what was known then, can be had of the room as it is now. The error is a
// *Misfit. What Hold chooses is always granted; what is granted need not be what Hold would choose.
func (r Room) Grants(h Allocation) error {
	s := newStock(r, max(h.Share, 1))
	for _, c := range h.Cells {
		n := s.node(c.NUMA)
		if n == nil {
			return misfit(memoryShort, "the host has no NUMA node %d", c.NUMA)
		}
		if n.memory < c.MemoryMiB {
			return misfit(memoryShort, "%d MiB asked of NUMA node %d, %d are free", c.MemoryMiB, c.NUMA, n.memory)
		}
		n.memory -= c.MemoryMiB
		for _, core := range c.Cores {
			if !n.take(core) {
				return misfit(coresShort, "core %d of NUMA node %d is offline, kept by the host, or in use", core, c.NUMA)
			}
		}
	}
	for i, pci := range h.Devices {
		free := slices.ContainsFunc(s.devices, func(o offer) bool { return o.PCI == pci })
		if !free || slices.Contains(h.Devices[:i], pci) {
			return misfit(devicesShort, "device %s is not available: it is gone, in use, lost, the host's own, divided, or "+
				"shares an IOMMU group with one that is", pci)
		}
	}
	if now := s.withheld(h.Devices); !slices.Equal(now, h.Withheld) {
		return misfit(iommuShort, "IOMMU groups have changed: with its devices %v would have to be withheld, not %v", now,
			h.Withheld)
	}
	return nil
}

// take takes a core from those that are free; false if it is none of them.
func (n *node) take(core int) bool {
	for i, c := range n.caches {
		if at := slices.Index(c.cores, core); at >= 0 {
			n.caches[i].cores = slices.Delete(c.cores, at, at+1)
			return true
		}
	}
	return false
}
