package place

import (
	"fmt"
	"slices"

	"muster/internal/inventory"
)

// View is what a guest sees of its part of a host, in words that are equal for equal views: NUMA nodes, how far they are
// from each other, and how its cores share sockets and caches. A guest that runs can only go where it sees the same. Devices
// are not in it: a guest that has any does not go.
func (h Allocation) View(f inventory.Facts) string {
	view := f.Arch + " " + f.CPUModel
	var packages, caches []int
	for _, cell := range h.Cells {
		view += fmt.Sprintf("; %d MiB", cell.MemoryMiB)
		node := slices.IndexFunc(f.NUMA, func(n inventory.NUMANode) bool { return n.ID == cell.NUMA })
		for _, other := range h.Cells {
			at := slices.IndexFunc(f.NUMA, func(n inventory.NUMANode) bool { return n.ID == other.NUMA })
			if node >= 0 && at >= 0 && at < len(f.NUMA[node].Distances) && len(h.Cells) > 1 {
				view += fmt.Sprintf(" %d", f.NUMA[node].Distances[at])
			}
		}
		for _, id := range cell.Cores {
			for _, core := range f.Layout {
				if core.ID == id {
					view += fmt.Sprintf(", %d threads in socket %d, cache %d", len(core.CPUs), nth(&packages, core.Package),
						nth(&caches, core.Cache))
				}
			}
		}
	}
	return view
}

// nth numbers values in the order in which they come.
func nth(seen *[]int, value int) int {
	if i := slices.Index(*seen, value); i >= 0 {
		return i
	}
	*seen = append(*seen, value)
	return len(*seen) - 1
}
