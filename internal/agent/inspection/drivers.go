package inspection

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Loading drivers brings new devices, which want drivers themselves: a SATA controller, then its disks.
const (
	driverRounds = 6
	driverPause  = 300 * time.Millisecond // for devices to appear behind a new driver
	driverLimit  = 30 * time.Second       // for one call of modprobe
)

// loadDrivers loads the modules that the devices' aliases name, and waits for the disks behind them. Displays keep the
// console that they have. Where the kernel has no modules nothing happens.
func (m *machine) loadDrivers(ctx context.Context) {
	known := map[string]bool{}
	blocks := []string{}
	for range driverRounds {
		var fresh []string
		for _, bus := range []string{"pci", "virtio", "scsi", "usb"} {
			for _, device := range m.Names("sys/bus", bus, "devices") {
				alias := m.Text("sys/bus", bus, "devices", device, "modalias")
				display := bus == "pci" && strings.Contains(alias, "bc03sc")
				if alias != "" && !display && !known[alias] {
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
		if !sleep(ctx, driverPause) {
			return
		}
	}
}

// undriven are the storage controllers without a driver: whatever disks they have were not seen. A virtual disk is a
// device on two buses and needs a driver on both.
func (m *machine) undriven() []string {
	const (
		virtioDisk = "virtio:d00000002v" // modalias: Virtio 1.2, chapter 5, device types 2 and 8
		virtioSCSI = "virtio:d00000008v"
	)
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
