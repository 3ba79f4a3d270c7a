package inventory

// Kept is what a hypervisor keeps of itself for its own work and for the emulators of its guests: cores by Core.ID, and
// memory in MiB by NUMA node. Guests never get it.
//
// It is the first core of every socket; with fewer than four cores that would be too much, and the guests' emulators run
// beside them. Of memory it is a sixteenth of every node, and at least half a GiB of the first that has any.
func (f Facts) Kept() (cores []int, memory map[int]int) {
	const (
		fewCores = 4
		share    = 16
		least    = 512 // MiB
	)
	seen := map[int]bool{}
	for _, c := range f.Layout {
		if len(f.Layout) >= fewCores && len(c.CPUs) > 0 && !seen[c.Package] {
			seen[c.Package] = true
			cores = append(cores, c.ID)
		}
	}
	memory = map[int]int{}
	for _, n := range f.NUMA {
		if n.MemoryMiB == 0 {
			continue
		}
		keep := n.MemoryMiB / share
		if len(memory) == 0 {
			keep = min(max(keep, least), n.MemoryMiB)
		}
		memory[n.ID] = keep
	}
	return cores, memory
}

// Lost are the addresses of devices that cannot be given to a guest now.
func (f Facts) Lost() []string {
	var lost []string
	for _, d := range f.Devices {
		if d.Lost != "" {
			lost = append(lost, d.PCI)
		}
	}
	return lost
}
