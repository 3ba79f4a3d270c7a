package inventory

import (
	"fmt"
	"slices"

	"muster/internal/kit/lists"
)

// Since says in words what differs from an earlier inspection; nothing if there was none. What was measured, and the
// health of disks, changes by itself and is left out.
func (f Facts) Since(old Facts) []string {
	if old.CPUs == 0 || old.MemoryMiB == 0 || old.Arch == "" {
		return nil
	}
	var changes []string
	number := func(what string, was, is int) {
		if was != is {
			changes = append(changes, fmt.Sprintf("%s: %d, was %d", what, is, was))
		}
	}
	text := func(what, was, is string) {
		if was != is && was != "" {
			changes = append(changes, fmt.Sprintf("%s: %q, was %q", what, is, was))
		}
	}
	number("CPUs", old.CPUs, f.CPUs)
	text("CPU model", old.CPUModel, f.CPUModel)
	number("MiB of memory", old.MemoryMiB, f.MemoryMiB)
	number("NUMA nodes", len(old.NUMA), len(f.NUMA))
	text("serial number", old.System.Serial, f.System.Serial)
	text("firmware", old.System.Firmware, f.System.Firmware)
	changes = append(changes, compare("memory module", old.DIMMs, f.DIMMs, func(d DIMM) string {
		return fmt.Sprintf("%s of %d MiB", d.Slot, d.SizeMiB)
	})...)
	changes = append(changes, compare("disk", old.Disks, f.Disks, func(d Disk) string {
		return fmt.Sprintf("%s %s (%d GB)", d.Model, d.Serial, d.SizeGB)
	})...)
	changes = append(changes, compare("NIC", old.NICs, f.NICs, func(n NIC) string { return n.MAC })...)
	changes = append(changes, compare("device", old.accelerators(), f.accelerators(), func(d Device) string {
		return fmt.Sprintf("%s %s:%s at %s", d.Kind, d.Vendor, d.ID, d.PCI)
	})...)
	if old.iommu() && !f.iommu() {
		changes = append(changes, "IOMMU: off, was on; no device can be given to a virtual machine")
	}
	return changes
}

// accelerators are the devices that are compared one by one: not NICs, which their MACs tell, nor virtual functions, which
// Muster makes, nor what only shares a group with others.
func (f Facts) accelerators() []Device {
	return slices.DeleteFunc(slices.Clone(f.Devices), func(d Device) bool {
		return d.Parent != "" || d.Kind == "nic" || d.Kind == "bridge"
	})
}

func (f Facts) iommu() bool {
	return slices.ContainsFunc(f.Devices, func(d Device) bool { return d.Group != "" })
}

// compare names the parts that are gone and those that are new.
func compare[T any](what string, old, now []T, name func(T) string) []string {
	var changes []string
	left := lists.Map(now, name)
	for _, part := range old {
		if i := slices.Index(left, name(part)); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		changes = append(changes, what+" gone: "+name(part))
	}
	for _, part := range left {
		changes = append(changes, "new "+what+": "+part)
	}
	return changes
}
