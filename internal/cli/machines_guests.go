package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/inventory"
	"muster/internal/kit/words"
)

// shareWords says what of a hypervisor is held: "12 of 64 cores, 96 GiB of 480 GiB, 3 guests, gpu 2 of 8".
func shareWords(s apiv1.Hosting) string {
	words := []string{
		fmt.Sprintf("%d of %d cores", s.Cores, s.OfCores),
		fmt.Sprintf("%s of %s", words.Size(int64(s.MemoryMiB)<<20), words.Size(int64(s.OfMemoryMiB)<<20)),
		words.Count(len(s.Guests), "guest"),
	}
	for _, kind := range slices.Sorted(maps.Keys(s.OfDevices)) {
		words = append(words, fmt.Sprintf("%s %d of %d", kind, s.Devices[kind], s.OfDevices[kind]))
	}
	return strings.Join(words, ", ")
}

// partWords says what a guest has of its host: "node 0: cores 2-5, 16.0 GiB; 0000:41:00.0".
func partWords(p apiv1.Part) string {
	var parts []string
	for _, cell := range p.Cells {
		cores := inventory.CPUList(cell.Cores)
		if strings.ContainsAny(cores, ",-") {
			cores = "cores " + cores
		} else {
			cores = "core " + cores
		}
		parts = append(parts, fmt.Sprintf("NUMA node %d: %s, %s", cell.NUMA, cores, words.Size(int64(cell.MemoryMiB)<<20)))
	}
	parts = append(parts, p.Devices...)
	if p.Share > 1 {
		parts = append(parts, fmt.Sprintf("cores shared by up to %d guests", p.Share))
	}
	if p.MovesTo != "" {
		parts = append(parts, "moves to "+p.MovesTo)
	}
	return strings.Join(parts, "; ")
}

// printGuests says of a cluster's nodes that are virtual machines where they are.
func (a *app) printGuests(nodes []apiv1.Node) {
	t := newTable("NODE", "HOST", "HOLDS")
	for _, n := range nodes {
		if n.Part != nil {
			t.row(n.Name, n.Part.Host, partWords(*n.Part))
		}
	}
	t.printBelow(a.out)
}
