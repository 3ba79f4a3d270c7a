package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// giveDevices makes the devices that the node holds ready for its guest. The host's facts of this moment say what they are,
// and whether the host has come to need one.
func (d *Driver) giveDevices(ctx context.Context, n substrate.Node, user int) error {
	if len(n.Allocation.Devices) == 0 {
		return nil
	}
	if d.config.Devices == nil {
		return errors.New("this host gives no devices")
	}
	facts, err := d.config.Facts(ctx)
	if err != nil {
		return err
	}
	given, err := among(facts, n.Allocation.Devices)
	if err != nil {
		return err
	}
	withheld, err := among(facts, n.Allocation.Withheld)
	if err != nil {
		return err
	}
	if err := d.config.Devices.PrepareAll(ctx, n.Node, given, withheld, n.Keys); err != nil {
		if ctx.Err() == nil && !errors.Is(err, devices.ErrNoKey) { // another try would find the same device in the same state
			err = fmt.Errorf("%w: %w", substrate.ErrRefused, err)
		}
		return err
	}
	return openTo(given, user)
}

// openTo lets a QEMU's user open the groups of devices that are bound to vfio-pci. In the /dev of each QEMU are its own alone.
func openTo(given []inventory.Device, user int) error {
	for _, device := range given {
		err := os.Chown(filepath.Join(vfio, device.Group), user, user)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // QEMU then says best what is missing
			return err
		}
	}
	return nil
}

// among finds devices by their addresses.
func among(facts inventory.Facts, addresses []string) ([]inventory.Device, error) {
	var found []inventory.Device
	for _, address := range addresses {
		i := slices.IndexFunc(facts.Devices, func(d inventory.Device) bool { return d.PCI == address })
		if i < 0 {
			return nil, fmt.Errorf("this host has no device %s any more", address)
		}
		found = append(found, facts.Devices[i])
	}
	return found, nil
}

// takeDevices takes back what a guest has that does not run any more. One that does not come back keeps neither the guest
// nor its other devices: it is lost, is given to no guest, and is tried again by Mend.
func (d *Driver) takeDevices(ctx context.Context, guest string) error {
	if d.config.Devices == nil {
		return nil
	}
	err := d.config.Devices.ReleaseAll(ctx, guest)
	if err == nil || ctx.Err() != nil || errors.Is(err, devices.ErrHeld) {
		return err
	}
	d.config.Log.Error("a device could not be taken back from a guest, and is given to nobody until it can", "guest", guest,
		"why", err)
	return nil
}

// lostDevices are those that cannot be given to a guest that is about to be made, whatever the host's facts say: they have
// not come back from their guests, or are somebody's. Guests without devices do not ask.
func (d *Driver) lostDevices(n substrate.Node) ([]string, error) {
	if len(n.Allocation.Devices) == 0 || d.config.Devices == nil {
		return nil, nil
	}
	all, err := d.config.Devices.List()
	if err != nil {
		return nil, err
	}
	return lists.Map(all, func(s devices.Status) string { return s.PCI }), nil
}
