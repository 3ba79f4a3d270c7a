package devices

import (
	"context"
	"fmt"

	"muster/internal/kit/wrap"
)

// Release takes a device back from a guest whose process has ended: it is reset, its address is taken from it, what the
// guest wrote on it is erased, and the host's own driver has it again, if it had one. A device that is not the guest's
// any more is fine. After an error the device is lost until a later call works.
func (d *Driver) Release(ctx context.Context, address, guest string) error {
	return wrap.Errorf(d.release(ctx, address, guest), "take device %s back from guest %s", address, guest)
}

func (d *Driver) release(ctx context.Context, address, guest string) error {
	r, err := d.record(address)
	if err != nil || r == nil || r.Guest != guest {
		return err
	}
	physical := r.PCI
	if r.Parent != "" {
		physical = r.Parent
	}
	unlock, err := d.family(ctx, physical)
	if err != nil {
		return err
	}
	defer unlock()
	if r, err = d.record(address); err != nil || r == nil || r.Guest != guest { // meanwhile
		return err
	}
	holders, err := d.holders(address)
	if err != nil {
		return err
	}
	if len(holders) > 0 {
		return fmt.Errorf("process %d: %w", holders[0], ErrHeld)
	}
	if !r.Returning {
		r.Returning = true
		if err := d.save(*r); err != nil {
			return err
		}
	}
	if err := d.takeBack(ctx, *r); err != nil {
		if ctx.Err() != nil {
			return err // no fault of the device's
		}
		r.Lost = err.Error()
		if err := d.save(*r); err != nil {
			return err
		}
		return err
	}
	return d.forget(address)
}

// takeBack does what has not been done yet.
func (d *Driver) takeBack(ctx context.Context, r record) error {
	f, err := d.look(r.PCI)
	if missing(err) && r.Parent != "" {
		// Its parent was reset or divided again: the function's own memory went with it. What its parent keeps stays.
		if _, err := d.look(r.Parent); err != nil {
			return err
		}
		return d.vacate(ctx, r)
	}
	if err != nil {
		return err
	}
	if r.Withheld {
		if err := d.alone(f); err != nil {
			return err
		}
	}
	// A host's driver got it only after it was reset, or has had it all the time.
	untouched := r.Withheld && d.resettable(f) != nil // a bridge to something old, say: no guest had it
	if !untouched && (f.driver == "" || f.driver == vfio) {
		if err := d.reset(ctx, f); err != nil {
			return err
		}
	}
	if r.Parent != "" {
		if err := d.park(ctx, r); err != nil {
			return err
		}
	}
	if err := d.restore(ctx, r.PCI); err != nil {
		return err
	}
	return d.vacate(ctx, r)
}

// alone refuses to give a withheld function back while one of its IOMMU group is not: that may still write where its guest
// has told it to, and the host would have a part of its group again.
func (d *Driver) alone(f function) error {
	members, err := d.Kernel.List("kernel/iommu_groups/" + f.group + "/devices")
	if err != nil {
		return fmt.Errorf("IOMMU group %s: %w", f.group, err)
	}
	for _, address := range members {
		r, err := d.record(address)
		if err != nil {
			return err
		}
		if r != nil && !r.Withheld {
			return fmt.Errorf("it stays withheld until %s is back, which shares its IOMMU group %s", address, f.group)
		}
	}
	return nil
}
