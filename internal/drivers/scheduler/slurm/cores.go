package slurm

import (
	"cmp"
	"slices"

	"muster/internal/inventory"
	"muster/internal/protocol"
)

// gpusOf are the node's GPUs that Slurm can give: those with a device.
func gpusOf(found []protocol.GPUFacts, layout inventory.Layout) []GPU {
	var gpus []GPU
	for _, g := range found {
		if g.Device != "" {
			gpus = append(gpus, GPU{Model: g.Model, Device: g.Device, Cores: coresOf(layout, g.CPUs)})
		}
	}
	return gpus
}

// coresOf are the cores of these CPUs by the numbers that Slurm gives them: it counts cores as they lie, package by
// package, whatever the kernel calls their threads.
func coresOf(layout inventory.Layout, cpus string) string {
	near, err := inventory.ParseCPUList(cpus)
	if err != nil || len(near) == 0 {
		return ""
	}
	first := map[[2]int]int{} // core of each package, and of each NUMA node of it
	lowest := func(key [2]int, id int) {
		if old, known := first[key]; !known || id < old {
			first[key] = id
		}
	}
	for _, c := range layout {
		lowest([2]int{c.Package, -1}, c.ID)
		lowest([2]int{c.Package, c.NUMA}, c.ID)
	}
	cores := slices.SortedStableFunc(slices.Values(layout), func(a, b inventory.Core) int {
		return cmp.Or(
			first[[2]int{a.Package, -1}]-first[[2]int{b.Package, -1}],
			first[[2]int{a.Package, a.NUMA}]-first[[2]int{b.Package, b.NUMA}],
			a.Cache-b.Cache, a.ID-b.ID)
	})
	var numbers []int
	for number, c := range cores {
		if slices.Contains(near, c.ID) {
			numbers = append(numbers, number)
		}
	}
	return inventory.CPUList(numbers)
}
