package inspection

import (
	"context"

	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
)

// facts reads what the machine is. What can't be read is left out. Two calls on a machine that was not changed give the same, but
// for the health of its disks and the state of its links.
func (m *machine) facts(ctx context.Context, disks []disk) inventory.Facts {
	f := hardware.Read(m.Tree)
	f.NICs = m.nics()
	m.nameDevices(ctx, f.Devices)
	for _, d := range disks {
		f.Disks = append(f.Disks, d.Disk)
	}
	firmware := m.firmware()
	f.System, f.DIMMs = firmware.system, firmware.dimms
	if f.CPUModel == "" {
		f.CPUModel = firmware.processor
	}
	return f
}

// Memory is the size of this machine's last-level caches and of its free memory, in bytes; 0: not known.
func Memory() (caches, free int64) {
	here := hardware.Tree("/")
	return here.LastLevelCaches(), int64(here.Memory("MemAvailable")) << 20
}
