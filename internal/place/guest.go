package place

import (
	"fmt"
	"slices"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// Guest is what a virtual machine asks of its host.
type Guest struct {
	CPUs      int // hardware threads; a core is given whole, so that no other guest computes beside it
	MemoryMiB int
	Devices   map[string]int // by kind as inventory.Device has it: gpu, hca, nic, nvme
	Locality  Locality       // of the devices to the guest's NUMA nodes
	// GPUDirect asks that every GPU has an HCA of the guest's below the same root port.
	GPUDirect bool
	// Share is how many guests may have the same core, at most: 1 unless the class is over-committed. Memory and devices
	// are never shared.
	Share int
}

// Locality says how near a guest's devices must be to its cores.
type Locality string

// The localities.
const (
	Required  Locality = "required"  // on the guest's own NUMA nodes
	Preferred Locality = "preferred" // there if it can be had
	Any       Locality = "any"
)

// Room is what a hypervisor has, and what of it is taken.
type Room struct {
	Facts   inventory.Facts
	Keep    []int        // cores, by inventory.Core.ID, that stay with the host: its own work and the guests' emulators
	KeepMiB map[int]int  // memory that stays with the host, by NUMA node
	Held    []Allocation // by the guests that are there, or about to come
	Lost    []string     // PCI addresses of devices that cannot be given now
}

// Allocation is exactly what one guest has of its host.
type Allocation struct {
	Guest   string   `json:"guest"`
	Cells   []Cell   `json:"cells"`             // by NUMA node; the guest's NUMA nodes are these, in order
	Devices []string `json:"devices,omitempty"` // PCI addresses, ascending
	// Withheld are the other functions in its devices' IOMMU groups, bridges aside: no guest is given them, and no driver of the
	// host's may have them, as long as the holding lasts.
	Withheld []string `json:"withheld,omitempty"`
	Share    int      `json:"share"` // how many guests may have its cores, itself included
}

// Cell is a guest's part of one NUMA node.
type Cell struct {
	NUMA      int   `json:"numa"`
	Cores     []int `json:"cores"` // inventory.Core.ID, ascending
	MemoryMiB int   `json:"memory_mib"`
}

// Misfit says why a host cannot carry a guest now.
type Misfit struct {
	What string // what is short: cores, memory, gpu, locality, gpu_direct, iommu …
	Text string // "16 cores asked, 12 free, at most 8 on one NUMA node"
}

func (m *Misfit) Error() string { return fmt.Sprintf("%s: %s", m.What, m.Text) }

// CPUs are the hardware threads that the holding has, by the kernel's numbers, in the guest's order: NUMA node by memory
// node, core by core, thread by thread. The guest's first CPU is pinned to the first of them, and so on. Threads that have
// gone offline since are missing.
func (h Allocation) CPUs(f inventory.Facts) []int {
	return slices.Concat(lists.Map(h.Cells, func(c Cell) []int { return c.CPUs(f) })...)
}

// CPUs are the hardware threads of one cell, in the guest's order.
func (c Cell) CPUs(f inventory.Facts) []int {
	var cpus []int
	for _, id := range c.Cores {
		for _, core := range f.Layout {
			if core.ID == id {
				cpus = append(cpus, core.CPUs...)
			}
		}
	}
	return cpus
}
