package vm

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/drivers/substrate/vm/devices/fake"
	"muster/internal/inventory"
	"muster/internal/place"
)

// passing is a driver on a host with a GPU, whose sound shares its IOMMU group.
func passing(t *testing.T, gpu, sound string) (*Driver, *fake.Kernel, *bytes.Buffer) {
	t.Helper()
	kernel := fake.New(
		fake.Function{Address: gpu, Group: "7", Class: 0x0302, Vendor: "10de", ID: "2330", Methods: "flr"},
		fake.Function{Address: sound, Group: "7", Class: 0x0403, Vendor: "10de", ID: "22ba", Driver: "snd_hda_intel"})
	moves, err := devices.New(devices.Options{Kernel: kernel, Links: kernel, Tools: kernel, Eraser: kernel, Dir: t.TempDir(),
		Patience: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	facts := func(context.Context) (inventory.Facts, error) {
		return inventory.Facts{Devices: []inventory.Device{{Kind: "gpu", PCI: gpu, Group: "7"},
			{Kind: "other", PCI: sound, Group: "7"}}}, nil
	}
	var log bytes.Buffer
	return &Driver{config: Config{Devices: moves, Facts: facts, Log: slog.New(slog.NewTextHandler(&log, nil))}}, kernel, &log
}

func TestAGuestsDevicesAreGivenAndTaken(t *testing.T) {
	const gpu, sound = "0000:17:00.0", "0000:17:00.1"
	d, kernel, log := passing(t, gpu, sound)
	ctx := t.Context()
	n := substrate.Node{Ref: substrate.Ref{Cluster: "c", Node: "n1"},
		Allocation: &place.Allocation{Devices: []string{gpu}, Withheld: []string{sound}}}
	if err := d.giveDevices(ctx, n, firstUser); err != nil {
		t.Fatal(err)
	}
	if err := kernel.Open(1, gpu); err != nil {
		t.Fatal(err)
	}
	if err := d.takeDevices(ctx, "n1"); err == nil {
		t.Error("devices were taken from a QEMU that runs")
	}
	kernel.Exit(1)
	kernel.Deafen(gpu, true)
	if err := d.takeDevices(ctx, "n1"); err != nil {
		t.Errorf("a GPU that is lost keeps its guest: %v", err)
	}
	if !strings.Contains(log.String(), "does not answer") {
		t.Errorf("the log does not tell of the GPU: %s", log)
	}
	soundHas := func(want string) {
		t.Helper()
		if driver, _ := kernel.Read("bus/pci/devices/" + sound + "/driver"); driver != want {
			t.Errorf("the host's sound has driver %q, want %q", driver, want)
		}
	}
	soundHas("vfio-pci") // the GPU may still write where its guest has told it to
	n.Node = "n2"
	if lost, err := d.lostDevices(n); err != nil || !slices.Contains(lost, gpu) {
		t.Errorf("lost are %v: %v", lost, err)
	}
	if err := d.giveDevices(ctx, n, firstUser); !errors.Is(err, substrate.ErrRefused) ||
		!strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a lost GPU was given: %v", err)
	}
	kernel.Deafen(gpu, false)
	if err := d.config.Devices.Mend(ctx); err != nil {
		t.Error(err)
	}
	soundHas("snd_hda_intel")
	if lost, err := d.lostDevices(n); err != nil || len(lost) != 0 {
		t.Errorf("when all is mended %v are lost: %v", lost, err)
	}
	n.Allocation.Devices = []string{"0000:99:00.0"}
	if err := d.giveDevices(ctx, n, firstUser); err == nil || !strings.Contains(err.Error(), "no device 0000:99:00.0 any more") {
		t.Errorf("a device that is not there: %v", err)
	}
	d.config.Devices = nil
	if err := d.giveDevices(ctx, n, firstUser); err == nil {
		t.Error("a host without a driver of devices gave one")
	}
}
