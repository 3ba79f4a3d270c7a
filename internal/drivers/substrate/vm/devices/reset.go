package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/internal/kit/wrap"
)

// resettable refuses a device that could not be cleared of what its guest leaves in it.
func (d *Driver) resettable(f function) error {
	_, err := d.resetMethod(f)
	return err
}

// resetMethod is the one to be used; "": the kernel's own order.
func (d *Driver) resetMethod(f function) (string, error) {
	names, err := d.Kernel.List(pciDevices + "/" + f.address)
	if err != nil {
		return "", fmt.Errorf("device %s: %w", f.address, err)
	}
	if !slices.Contains(names, "reset") {
		return "", errors.New("it cannot be reset by itself: what one guest leaves in it would be the next one's")
	}
	q, odd := quirkOf(f)
	if !odd {
		return "", nil
	}
	text, err := d.optional(device(f.address, "reset_method"))
	if err != nil {
		return "", fmt.Errorf("device %s: its ways to be reset: %w", f.address, err)
	}
	for _, method := range strings.Fields(text) {
		if method == q.need || q.need == "" && method != q.avoid {
			return method, nil
		}
	}
	return "", fmt.Errorf("the kernel offers to reset it by %q: %s (%s)", text, q.why, q.source)
}

// reset clears the function of all that its guest left in it, and waits until it answers.
func (d *Driver) reset(ctx context.Context, f function) error {
	method, err := d.resetMethod(f)
	if err != nil {
		return err
	}
	if method != "" {
		if err := d.write(ctx, device(f.address, "reset_method"), method); err != nil {
			return err
		}
	}
	if err := d.write(ctx, device(f.address, "reset"), "1"); err != nil {
		return err
	}
	return wrap.Errorf(d.until(ctx, func() error { return d.awake(f.address) }), "after its reset")
}

// awake reads the function's configuration space from the hardware: all ones is what a bus answers for one that is dead.
// Vendor and device say nothing: a virtual function answers all ones to them (SR-IOV 1.1, 3.4.1.1), but has a class.
func (d *Driver) awake(address string) error {
	const class, length = 8, 4
	space, err := d.Kernel.Read(device(address, "config"))
	if err != nil {
		return fmt.Errorf("its configuration space: %w", err)
	}
	if len(space) < class+length || space[class:class+length] == strings.Repeat("\xff", length) {
		return errors.New("it does not answer: its configuration space reads as ones")
	}
	return nil
}
