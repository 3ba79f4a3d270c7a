// Package hardware reads from the kernel what a machine is made of: cores and what they share, NUMA nodes, PCI
// functions and what the machine itself needs of them.
//
// What enters: sysfs and procfs. What leaves: inventory.Facts. It changes nothing, loads no driver and starts no program,
// so it may be called at any time, on a machine that is inspected as on one that holds guests:
//
//	inspection of a machine ─┐
//	this host's own machines ┼→ hardware → sysfs, procfs
//	a hypervisor's devices  ─┘
//
// What can't be read is left out.
package hardware

import (
	"runtime"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// memoryStep is what amounts of memory are rounded down to: what the firmware and the kernel keep for themselves
// differs by a few MiB from one boot to the next, and the same machine shall have the same facts.
const memoryStep = 16 // MiB

// Read tells what the machine of the tree is, but for the names of its devices, its disks, its NICs and its firmware. Two
// calls on a machine that was not changed give the same.
func Read(t Tree) inventory.Facts {
	f := inventory.Facts{
		Arch:      runtime.GOARCH,
		CPUModel:  cpuModel(t.Text("proc/cpuinfo")),
		MemoryMiB: t.Memory("MemTotal") / memoryStep * memoryStep,
		Kernel:    t.Text("proc/sys/kernel/osrelease"),
		Devices:   t.Devices(),
	}
	cpus := t.OnlineCPUs()
	f.NUMA = t.memoryNodes(cpus, f.MemoryMiB)
	f.Layout = t.cores(cpus, f.NUMA)
	f.CPUs, f.Cores = len(cpus), len(f.Layout)
	sockets := lists.SetBy(f.Layout, func(c inventory.Core) int { return c.Package })
	f.Sockets = len(sockets)
	return f
}
