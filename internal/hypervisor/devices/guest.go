package devices

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"slices"

	"muster/internal/inventory"
)

// PrepareAll makes all devices of a guest ready, and takes from the host's drivers what shares their IOMMU groups and is
// withheld from everybody. It may be repeated. After an error ReleaseAll takes back what was done.
func (d *Driver) PrepareAll(ctx context.Context, guest string, given, withheld []inventory.Device) error {
	var wants []Want
	var together []string
	for i, device := range slices.Concat(given, withheld) {
		w := Want{Guest: guest, PCI: device.PCI, Host: device.Host, Withheld: i >= len(given)}
		if device.Parent != "" && !w.Withheld {
			w.MAC, w.GUID = addresses(guest, device.PCI)
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

// addresses are those of a guest's virtual function; the one that fits its fabric is used. They are the same at each try,
// differ for all that a site will have, and say by a bit that no maker of adapters has given them (IEEE 802, the U/L
// bit). Their first octet is another one than that of the nodes' own MACs.
func addresses(guest, address string) (mac, guid string) {
	const local, macLength, guidLength = 0x06, 6, 8
	sum := sha256.Sum256([]byte(guest + " " + address))
	sum[0] = local
	return net.HardwareAddr(sum[:macLength]).String(), hex.EncodeToString(sum[:guidLength])
}
