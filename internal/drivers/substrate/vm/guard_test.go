package vm

import (
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/drivers/substrate/vm/devices/fake"
	"muster/internal/inventory"
)

func TestAnInspectionTellsWhichDevicesAreLost(t *testing.T) {
	const broken, fine = "0000:17:00.0", "0000:18:00.0"
	kernel := fake.New(
		fake.Function{Address: broken, Group: "7", Class: 0x0302, Vendor: "10de", ID: "2330", Methods: "flr"},
		fake.Function{Address: fine, Group: "8", Class: 0x0302, Vendor: "10de", ID: "2330", Methods: "flr"})
	driver, err := devices.New(devices.Options{Kernel: kernel, Links: kernel, Tools: kernel, Eraser: kernel, Dir: t.TempDir(),
		Patience: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	facts := inventory.Facts{Devices: []inventory.Device{{Kind: "gpu", PCI: broken}, {Kind: "gpu", PCI: fine}}}
	if err := driver.PrepareAll(t.Context(), "g", facts.Devices, nil, nil); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		seen := inventory.Facts{Devices: append([]inventory.Device(nil), facts.Devices...)}
		if err := markLost(seen.Devices, driver); err != nil {
			t.Fatal(err)
		}
		return strings.Join(seen.Lost(), " ")
	}
	if got := look(); got != "" {
		t.Errorf("lost while a guest has them: %q", got)
	}
	kernel.Deafen(broken, true)
	if err := driver.ReleaseAll(t.Context(), "g"); err == nil {
		t.Error("a GPU that does not answer was taken back")
	}
	if got := look(); got != broken {
		t.Errorf("lost are %q, want %q", got, broken)
	}
	kernel.Deafen(broken, false)
	if err := driver.Mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := look(); got != "" {
		t.Errorf("lost when all is mended: %q", got)
	}
}
