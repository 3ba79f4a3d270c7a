package monitor

import (
	"slices"

	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/place"
	"muster/internal/protocol"
)

// gpusOf are the GPUs that a node on the machine is to have, under the addresses that they have for life: a guest's are
// called after its host. They are in the order in which the node finds them. A node without a kernel of its own has none.
func gpusOf(caps substrate.Capabilities, m, host machine.Machine) []protocol.GPU {
	switch {
	case caps.Guest:
		return guestGPUs(m, host)
	case !caps.Kernel:
		return nil
	}
	var gpus []protocol.GPU
	for i, d := range m.Facts.GPUs() {
		gpus = append(gpus, protocol.GPU{Address: inventory.GPUAddress(m.Name, i), Model: d.Name, CPUs: nearest(m.Facts, d.NUMA)})
	}
	return gpus[:min(len(gpus), protocol.MostGPUs)]
}

// guestGPUs orders them as they come on the guest's buses, which package domain lays: first those that are near
// to none of its NUMA nodes, then by NUMA node from the last one down, and within by the host's root ports.
func guestGPUs(m, host machine.Machine) []protocol.GPU {
	if m.Allocation == nil {
		return nil
	}
	near := make([][]protocol.GPU, len(m.Allocation.Cells)+1) // the first: to none
	for i, d := range host.Facts.GPUs() {
		if !slices.Contains(m.Allocation.Devices, d.PCI) {
			continue
		}
		cell := slices.IndexFunc(m.Allocation.Cells, func(c place.Cell) bool { return c.NUMA == d.NUMA })
		if len(host.Facts.NUMA) == 1 {
			cell = 0
		}
		near[cell+1] = append(near[cell+1], protocol.GPU{Address: inventory.GPUAddress(host.Name, i), Model: d.Name,
			CPUs: nearest(m.Facts, cell)})
	}
	slices.Reverse(near[1:])
	return slices.Concat(near...)
}

// nearest are the CPUs of a NUMA node; "" where it is not known, or is the only one.
func nearest(f inventory.Facts, node int) string {
	for _, n := range f.NUMA {
		if n.ID == node && len(f.NUMA) > 1 {
			return n.CPUs
		}
	}
	return ""
}
