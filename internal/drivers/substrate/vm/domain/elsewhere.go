package domain

import (
	"errors"
	"fmt"

	"libvirt.org/go/libvirtxml"
)

// ErrOther says that a guest that runs would find itself in another machine than it was started in.
var ErrOther = errors.New("it would find itself in another machine")

// Elsewhere is the description of a guest that runs, as its libvirt gives it, for another host: what the guest sees stays as it
// is, and what it has of its host is what it gets there. The error is ErrOther where that cannot be.
func Elsewhere(running string, there Domain) (string, error) {
	var is, gets libvirtxml.Domain
	if err := errors.Join(is.Unmarshal(running), gets.Unmarshal(there.XML)); err != nil {
		return "", fmt.Errorf("read a guest's description: %w", err)
	}
	if sees, would := machine(is), machine(gets); sees != would {
		return "", fmt.Errorf("%w: it sees %s, and would see %s", ErrOther, sees, would)
	}
	is.CPUTune, is.NUMATune, is.MemoryBacking, is.SecLabel = gets.CPUTune, gets.NUMATune, gets.MemoryBacking, gets.SecLabel
	return is.Marshal()
}

// machine says what of a domain the guest has looked at when it booted and will not look at again: how its CPUs are run, and
// how they and the memory lie to each other.
func machine(d libvirtxml.Domain) string {
	if d.CPU == nil || d.CPU.Topology == nil {
		return d.Type
	}
	t := d.CPU.Topology
	said := fmt.Sprintf("%s %s CPUs: %d sockets, %d dies, %d cores, %d threads", d.Type, d.CPU.Mode, t.Sockets, max(t.Dies, 1),
		t.Cores, t.Threads)
	if d.CPU.Numa == nil {
		return said
	}
	for i, cell := range d.CPU.Numa.Cell {
		memory := uint64(cell.Memory)
		if cell.Unit == "MiB" {
			memory <<= 10 // libvirt itself says KiB
		}
		said += fmt.Sprintf("; NUMA node %d: CPUs %s, %d KiB", i, cell.CPUs, memory)
		if cell.Distances == nil {
			continue
		}
		for _, s := range cell.Distances.Siblings {
			said += fmt.Sprintf(", %d to %d", s.Value, s.ID)
		}
	}
	return said
}
