package domain

import (
	"strconv"

	"libvirt.org/go/libvirtxml"

	"muster/internal/inventory"
	"muster/internal/place"
)

// binding keeps each cell's memory on the host's node that it is of. Nothing is to be bound where there is one node.
func (p *plan) binding() *libvirtxml.DomainNUMATune {
	if len(p.Facts.NUMA) < 2 {
		return nil
	}
	var nodes []int
	tune := &libvirtxml.DomainNUMATune{}
	for i, c := range p.cells {
		nodes = append(nodes, c.NUMA)
		tune.MemNodes = append(tune.MemNodes, libvirtxml.DomainNUMATuneMemNode{CellID: uint(i), Mode: "strict",
			Nodeset: strconv.Itoa(c.NUMA)})
	}
	tune.Memory = &libvirtxml.DomainNUMATuneMemory{Mode: "strict", Nodeset: inventory.CPUList(nodes)} // the emulator's own
	return tune
}

// PageSizes are those, in KiB, of huge pages that a guest's memory may be in; the first that all of it fits in is taken.
func PageSizes() []int { return []int{1 << 20, 2 << 10} }

// PageKiB is the size of the pages that a holding's memory comes from: the largest huge ones that all of it fits in; 0: plain
// ones.
func PageKiB(f inventory.Facts, h place.Allocation) int {
	for _, size := range PageSizes() {
		if fits(f, h, size) {
			return size
		}
	}
	return 0
}

// backing puts the memory into huge pages, whose tables fit into the processor's.
func (p *plan) backing() *libvirtxml.DomainMemoryBacking {
	backing := &libvirtxml.DomainMemoryBacking{MemoryNosharepages: &libvirtxml.DomainMemoryNosharepages{}}
	if size := PageKiB(p.Facts, p.Allocation); size > 0 {
		backing.MemoryHugePages = &libvirtxml.DomainMemoryHugepages{
			Hugepages: []libvirtxml.DomainMemoryHugepage{{Size: uint(size), Unit: "KiB"}},
		}
		return backing
	}
	p.warn("its memory is in plain pages: the host's NUMA nodes have not enough free huge pages; set some aside on the " +
		"kernel's command line, as hugepagesz=1G hugepages=N")
	return backing
}

// fits says whether every cell's memory fits into free pages of this size, in KiB, on its node.
func fits(f inventory.Facts, h place.Allocation, size int) bool {
	for _, c := range h.Cells {
		kib := c.MemoryMiB << 10
		if kib%size != 0 || kib/size > freePages(f, c.NUMA, size) {
			return false
		}
	}
	return true
}

func freePages(f inventory.Facts, numa, size int) int {
	for _, n := range f.NUMA {
		for _, pages := range n.HugePages {
			if n.ID == numa && pages.KiB == size {
				return pages.Free
			}
		}
	}
	return 0
}
