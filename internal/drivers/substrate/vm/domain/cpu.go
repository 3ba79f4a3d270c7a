package domain

import (
	"slices"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// cpu is the host's own where it runs the guest. Emulated it is the plainest that runs a Debian: every feature more costs
// the emulator time.
func (p *plan) cpu() *libvirtxml.DomainCPU {
	cpu := &libvirtxml.DomainCPU{Topology: p.topology(), Numa: p.numa()}
	threads := cpu.Topology.Threads > 1
	if p.KVM {
		cpu.Mode, cpu.Check, cpu.Migratable = "host-passthrough", "none", "off"
		if len(p.Allocation.Devices) == 0 { // it may be asked to move, which one that sees an invariant time stamp counter cannot
			cpu.Migratable = "on"
		}
		cpu.Cache = &libvirtxml.DomainCPUCache{Mode: "passthrough"}
		if threads && strings.HasPrefix(p.Facts.CPUModel, "AMD") {
			// Without it QEMU does not tell of an AMD's threads (qemu-cpu-models(7)).
			cpu.Features = []libvirtxml.DomainCPUFeature{{Policy: "require", Name: "topoext"}}
		}
		return cpu
	}
	cpu.Mode, cpu.Match, cpu.Check = "custom", "exact", "none"
	cpu.Model = &libvirtxml.DomainCPUModel{Fallback: "forbid", Value: "qemu64"}
	if threads {
		cpu.Model.VendorID = "GenuineIntel" // which tells of its threads as it is
	}
	return cpu
}

// topology divides the cores as they are divided: by sockets, within them by last-level caches, which QEMU calls dies,
// and each core into its threads. Where they do not divide evenly there is one of the kind, since QEMU knows only equal
// parts.
func (p *plan) topology() *libvirtxml.DomainCPUTopology {
	threads := len(p.cpus) / len(p.cores)
	if slices.ContainsFunc(p.cores, func(c inventory.Core) bool { return len(c.CPUs) != threads }) {
		return &libvirtxml.DomainCPUTopology{Sockets: 1, Dies: 1, Cores: len(p.cpus), Threads: 1}
	}
	sockets := parts(p.cores, func(c inventory.Core) int { return c.Package })
	dies := parts(p.cores, func(c inventory.Core) int { return c.Cache })
	if dies%sockets != 0 {
		dies = sockets
	}
	return &libvirtxml.DomainCPUTopology{Sockets: sockets, Dies: dies / sockets, Cores: len(p.cores) / dies, Threads: threads}
}

// parts counts the runs of cores that have the same of something; 1 if the runs are not equally long, or one of them
// comes twice.
func parts(cores []inventory.Core, of func(inventory.Core) int) int {
	var runs, lengths []int
	for i, c := range cores {
		if i == 0 || of(c) != of(cores[i-1]) {
			runs, lengths = append(runs, of(c)), append(lengths, 0)
		}
		lengths[len(lengths)-1]++
	}
	slices.Sort(runs)
	slices.Sort(lengths)
	if lengths[0] != lengths[len(lengths)-1] || len(slices.Compact(slices.Clone(runs))) != len(runs) {
		return 1
	}
	return len(runs)
}

// numa shows the holding's cells as NUMA nodes, as far from each other as they are.
func (p *plan) numa() *libvirtxml.DomainNuma {
	numa := &libvirtxml.DomainNuma{}
	for i, c := range p.cells {
		id := uint(i)
		numa.Cell = append(numa.Cell, libvirtxml.DomainCell{
			ID: &id, CPUs: span(c.first, c.end), Memory: uint(c.MemoryMiB), Unit: "MiB", Distances: p.distances(c),
		})
	}
	return numa
}

// Bounds of distances: ACPI specification, System Locality Information Table. libvirt takes no others.
const (
	nearest = 10
	unreach = 255
)

// distances are left out where the host does not know them all: then the guest has QEMU's, 10 and 20.
func (p *plan) distances(from cell) *libvirtxml.DomainCellDistances {
	if len(p.cells) < 2 {
		return nil
	}
	var known libvirtxml.DomainCellDistances
	for i, to := range p.cells {
		at := slices.IndexFunc(p.Facts.NUMA, func(n inventory.NUMANode) bool { return n.ID == to.NUMA })
		if at >= len(from.node.Distances) {
			return nil
		}
		distance := from.node.Distances[at]
		if near := to.NUMA == from.NUMA; near != (distance == nearest) || distance < nearest || distance >= unreach {
			return nil
		}
		known.Siblings = append(known.Siblings, libvirtxml.DomainCellSibling{ID: uint(i), Value: uint(distance)})
	}
	return &known
}

// pins are by virtual CPU.
func (p *plan) pins() [][]int {
	return lists.Map(p.cpus, func(cpu int) []int { return []int{cpu} })
}

// pinning keeps all threads of QEMU where they belong. libvirt refuses to pin emulated CPUs (its qemu driver has taken them
// for one thread since before they were several); then Domain.Pins are for the driver that starts the guest.
func (p *plan) pinning() *libvirtxml.DomainCPUTune {
	tune := &libvirtxml.DomainCPUTune{
		EmulatorPin: &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: inventory.CPUList(p.besides())},
		IOThreadPin: []libvirtxml.DomainCPUTuneIOThreadPin{{IOThread: 1, CPUSet: inventory.CPUList(p.besides())}},
	}
	if p.KVM {
		for i, cpu := range p.cpus {
			tune.VCPUPin = append(tune.VCPUPin, libvirtxml.DomainCPUTuneVCPUPin{VCPU: uint(i), CPUSet: strconv.Itoa(cpu)})
		}
	}
	return tune
}

// besides are the host's own CPUs: those on the guest's sockets if there are any. A host that keeps none has the emulator
// compute beside the guest that it works for, and no other.
func (p *plan) besides() []int {
	kept, _ := p.Facts.Kept()
	var near, all []int
	for _, core := range p.Facts.Layout {
		if !slices.Contains(kept, core.ID) {
			continue
		}
		all = append(all, core.CPUs...)
		if slices.ContainsFunc(p.cores, func(c inventory.Core) bool { return c.Package == core.Package }) {
			near = append(near, core.CPUs...)
		}
	}
	switch {
	case len(near) > 0:
		return near
	case len(all) > 0:
		return all
	}
	return p.cpus
}

// span is a CPU list of the numbers from first up to end, which is not in it.
func span(first, end int) string {
	switch end - first {
	case 0:
		return ""
	case 1:
		return strconv.Itoa(first)
	}
	return strconv.Itoa(first) + "-" + strconv.Itoa(end-1)
}
