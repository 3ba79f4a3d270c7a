package inspection

import (
	"context"
	"slices"
	"strings"
	"time"

	"muster/internal/kit/clock"
)

// Loading drivers brings new devices, which want drivers themselves: a SATA controller, then its disks.
const (
	driverRounds = 6
	driverPause  = 300 * time.Millisecond // for devices to appear behind a new driver
	driverLimit  = 30 * time.Second       // for one call of modprobe
)

// loadDrivers is loadFor all devices. Displays keep the console that they have.
func (m *machine) loadDrivers(ctx context.Context) {
	m.loadFor(ctx, func(bus, alias string) bool { return bus != "pci" || !strings.Contains(alias, "bc03sc") })
}

// A virtual disk is a device on two buses and needs a driver on both.
const (
	virtioDisk = "virtio:d00000002v" // modalias: Virtio 1.2, chapter 5, device types 2 and 8
	virtioSCSI = "virtio:d00000008v"
)

// loadForDisks is loadFor disks that are no NVMe disks, and what they hang on.
func (m *machine) loadForDisks(ctx context.Context) {
	m.loadFor(ctx, func(bus, alias string) bool {
		switch bus {
		case "pci": // classes of PCI Code and ID Assignment Specification 1.11, 1.2: mass storage, and NVM among it
			return strings.Contains(alias, "bc01sc") && !strings.Contains(alias, "bc01sc08")
		case "virtio":
			return strings.HasPrefix(alias, virtioDisk) || strings.HasPrefix(alias, virtioSCSI)
		}
		return bus == "scsi"
	})
}

// loadFor loads the modules that the aliases of wanted devices name, and waits for the disks behind them. Where the kernel has no
// modules nothing happens.
func (m *machine) loadFor(ctx context.Context, wanted func(bus, alias string) bool) {
	known := map[string]bool{}
	blocks := []string{}
	for range driverRounds {
		var fresh []string
		for _, bus := range []string{"pci", "virtio", "scsi", "usb"} {
			for _, device := range m.Names("sys/bus", bus, "devices") {
				alias := m.Text("sys/bus", bus, "devices", device, "modalias")
				if alias != "" && wanted(bus, alias) && !known[alias] {
					known[alias] = true
					fresh = append(fresh, alias)
				}
			}
		}
		now := m.Names("sys/block")
		if len(fresh) == 0 && slices.Equal(now, blocks) {
			return
		}
		blocks = now
		if len(fresh) > 0 {
			// An alias that no module answers to is no error worth a word; see undriven.
			_, _ = m.run(ctx, driverLimit, append([]string{"modprobe", "-a", "-b", "-q"}, fresh...)...)
		}
		if clock.Sleep(ctx, driverPause) != nil {
			return
		}
	}
}

// undriven are the storage controllers without a driver: whatever disks they have were not seen.
func (m *machine) undriven() []string {
	var found []string
	for _, d := range m.Functions() {
		if d.Storage() && d.Driver == "" && d.Parent == "" {
			found = append(found, d.Address+" ("+d.Vendor+":"+d.ID+")")
		}
	}
	for _, name := range m.Names("sys/bus/virtio/devices") {
		alias := m.Text("sys/bus/virtio/devices", name, "modalias")
		storage := strings.HasPrefix(alias, virtioDisk) || strings.HasPrefix(alias, virtioSCSI)
		if storage && !m.Exists("sys/bus/virtio/devices", name, "driver") {
			found = append(found, name)
		}
	}
	return found
}
