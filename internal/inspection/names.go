package inspection

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muster/internal/inventory"
)

// nameDevices asks lspci what the devices are called; without lspci they have no names.
func (m *machine) nameDevices(ctx context.Context, devices []inventory.Device) {
	if len(devices) == 0 {
		return
	}
	out, _ := m.run(ctx, 10*time.Second, "lspci", "-Dmm")
	names := pciNames(string(out))
	for i := range devices {
		devices[i].Name = names[devices[i].PCI]
	}
}

// pciNames reads lspci -Dmm: an address and quoted words for class, vendor and device (lspci(8), -mm).
func pciNames(text string) map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(text) {
		var address, class, vendor, device string
		if _, err := fmt.Sscanf(line, "%s %q %q %q", &address, &class, &vendor, &device); err == nil {
			names[address] = strings.TrimSpace(vendor + " " + device)
		}
	}
	return names
}
