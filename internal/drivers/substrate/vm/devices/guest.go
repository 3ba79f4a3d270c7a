package devices

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"slices"

	"muster/internal/fabric"
	"muster/internal/inventory"
)

// PrepareAll makes all devices of a guest ready, and takes from the host's drivers what shares their IOMMU groups and is
// withheld from everybody. It may be repeated. After an error ReleaseAll takes back what was done.
//
// keys are the guest's partitions, as substrate.Node has them.
func (d *Driver) PrepareAll(ctx context.Context, guest string, given, withheld []inventory.Device,
	keys map[fabric.GUID]fabric.Key) error {
	var wants []Want
	var together []string
	adapters := 0
	for i, device := range slices.Concat(given, withheld) {
		w := Want{Guest: guest, PCI: device.PCI, Host: device.Host, Withheld: i >= len(given)}
		if device.Parent != "" && !w.Withheld {
			w.MAC = macOf(guest, device.PCI)
			if device.Kind == "hca" {
				w.GUID, w.Keys = fabric.GuestPort(guest, adapters).String(), keys
				adapters++
			}
		}
		wants = append(wants, w)
		together = append(together, device.PCI)
	}
	for _, w := range wants {
		w.Together = together
		if err := d.Prepare(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// ReleaseAll takes back whatever a guest has. It tries all of it, whatever fails.
func (d *Driver) ReleaseAll(ctx context.Context, guest string) error {
	records, err := d.records()
	if err != nil {
		return err
	}
	var failed []error
	for _, r := range records {
		if r.Guest == guest {
			failed = append(failed, d.Release(ctx, r.PCI, guest))
		}
	}
	return errors.Join(failed...)
}

// macOf is that of a guest's virtual function on Ethernet. It is the same at each try, differs for all that a site will have, and
// says by a bit that no maker of adapters has given it (IEEE 802, the U/L bit). Its first octet is another one than that of the
// nodes' own MACs.
func macOf(guest, address string) string {
	const local, length = 0x06, 6
	sum := sha256.Sum256([]byte(guest + " " + address))
	sum[0] = local
	return net.HardwareAddr(sum[:length]).String()
}
