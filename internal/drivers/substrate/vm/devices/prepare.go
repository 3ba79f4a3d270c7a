package devices

import (
	"context"

	"muster/internal/kit/wrap"
)

// Prepare makes a device ready for a guest: configured, bound to vfio-pci, alone in its IOMMU group, and read back. It may
// be repeated, also while the guest runs; then it changes nothing. After an error the device is not the guest's to use,
// and Release takes back what was done.
func (d *Driver) Prepare(ctx context.Context, w Want) error {
	if err := w.check(); err != nil {
		return err
	}
	return wrap.Errorf(d.prepare(ctx, w), "device %s for guest %s", w.PCI, w.Guest)
}

func (d *Driver) prepare(ctx context.Context, w Want) error {
	physical, err := d.physical(w.PCI)
	if err != nil {
		return err
	}
	release, err := d.family(ctx, physical)
	if err != nil {
		return err
	}
	defer release()
	f, err := d.look(w.PCI)
	if err != nil {
		return err
	}
	link, settings, err := d.settings(f, w)
	if err != nil {
		return err
	}
	given, err := d.claim(ctx, f, w)
	if err != nil || given {
		return err
	}
	// The host's driver goes first: what it set is overwritten, and nothing of the guest's address is seen by the host.
	if f.driver != vfio {
		if err := d.unbind(ctx, f.address); err != nil {
			return err
		}
	}
	if err := d.configure(ctx, f, w, link, settings); err != nil {
		return err
	}
	if err := d.bind(ctx, f.address); err != nil {
		return err
	}
	if err := d.awake(f.address); err != nil {
		return err
	}
	return d.group(f, w) // a driver of the host's may have come meanwhile
}
