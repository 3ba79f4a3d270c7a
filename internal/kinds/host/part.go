package host

import (
	"cmp"
	"maps"
	"slices"

	"muster/internal/inventory"
	"muster/internal/place"
	"muster/internal/spec"
)

// Asked is what a guest of some size asks of its host, if so many may share its cores.
func Asked(vm spec.VM, share int) place.Guest {
	g := place.Guest{
		CPUs: vm.CPUs, MemoryMiB: spec.MiB(vm.Memory), Locality: place.Locality(cmp.Or(vm.Locality, string(place.Preferred))),
		GPUDirect: vm.GPUDirect,
		Share:     share,
	}
	if d := vm.Devices; d != nil {
		g.Devices = map[string]int{"gpu": d.GPU, "hca": d.IB, "nic": d.Eth, "nvme": d.NVMe}
		maps.DeleteFunc(g.Devices, func(_ string, n int) bool { return n == 0 })
	}
	return g
}

// PartFacts are those of a guest of so many CPUs and MiB, by what it holds of its host.
func PartFacts(host inventory.Facts, h place.Allocation, cpus, memoryMiB int) inventory.Facts {
	facts := inventory.Facts{Host: host.Host, Arch: host.Arch, CPUModel: host.CPUModel, CPUs: cpus, MemoryMiB: memoryMiB}
	next := 0
	for i, cell := range h.Cells {
		facts.Cores += len(cell.Cores)
		numbers := make([]int, len(cell.Cores)*cpus/max(1, coresOf(h)))
		for j := range numbers {
			numbers[j] = next
			next++
		}
		facts.NUMA = append(facts.NUMA, inventory.NUMANode{ID: i, CPUs: inventory.CPUList(numbers), MemoryMiB: cell.MemoryMiB})
	}
	for _, d := range host.Devices {
		if slices.Contains(h.Devices, d.PCI) {
			facts.Devices = append(facts.Devices, inventory.Device{Kind: d.Kind, PCI: d.PCI, Vendor: d.Vendor, ID: d.ID,
				Name: d.Name, NUMA: -1, Parent: d.Parent})
		}
	}
	return facts
}

func coresOf(h place.Allocation) int {
	n := 0
	for _, cell := range h.Cells {
		n += len(cell.Cores)
	}
	return n
}
