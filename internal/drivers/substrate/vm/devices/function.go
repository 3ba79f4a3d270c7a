package devices

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/kit/wrap"
)

// function is what sysfs says of one PCI function now.
type function struct {
	address, vendor, id string
	class               int // base class and subclass
	driver              string
	group               string // "": the IOMMU has none for it
	parent              string // physical function, of a virtual one
	number              int    // of a virtual function at its parent, from 0
}

// Classes that matter here (PCI Code and ID Assignment Specification, chapter 1).
const (
	classNVMe  = 0x0108
	baseBridge = 0x06
)

// optional reads a file that not every function has.
func (d *Driver) optional(path string) (string, error) {
	text, err := d.Kernel.Read(path)
	if missing(err) {
		return "", nil
	}
	return text, err
}

// look reads a function; one that is not there is fs.ErrNotExist.
func (d *Driver) look(address string) (function, error) {
	f := function{address: address}
	class, err := d.Kernel.Read(device(address, "class"))
	if err != nil {
		return f, fmt.Errorf("device %s: %w", address, err)
	}
	number, err := strconv.ParseUint(class, 0, 32)
	if err != nil {
		return f, fmt.Errorf("device %s: its class reads %q: %w", address, class, err)
	}
	f.class = int(number >> 8)
	for _, file := range []struct {
		name string
		to   *string
	}{
		{"vendor", &f.vendor}, {"device", &f.id}, {"driver", &f.driver}, {"iommu_group", &f.group}, {"physfn", &f.parent},
	} {
		if *file.to, err = d.optional(device(address, file.name)); err != nil {
			return f, fmt.Errorf("device %s: its %s: %w", address, file.name, err)
		}
	}
	f.vendor, f.id = strings.TrimPrefix(f.vendor, "0x"), strings.TrimPrefix(f.id, "0x")
	if f.parent != "" {
		f.number, err = d.number(f)
	}
	return f, err
}

// number finds which virtual function of its parent one is.
func (d *Driver) number(f function) (int, error) {
	vfs, err := d.virtual(f.parent)
	if err != nil {
		return 0, err
	}
	n := slices.Index(vfs, f.address)
	if n < 0 {
		return 0, fmt.Errorf("device %s: %s does not have it among its virtual functions", f.address, f.parent)
	}
	return n, nil
}

// virtual are the addresses of the virtual functions that a physical one has now, in their order.
func (d *Driver) virtual(physical string) ([]string, error) {
	const most = 1 << 16 // NumVFs has 16 bits
	var all []string
	for len(all) < most {
		address, err := d.optional(device(physical, "virtfn"+strconv.Itoa(len(all))))
		if err != nil {
			return nil, fmt.Errorf("virtual functions of %s: %w", physical, err)
		}
		if address == "" {
			break
		}
		all = append(all, address)
	}
	return all, nil
}

// physical is where a function's family has its token: the physical function.
func (d *Driver) physical(address string) (string, error) {
	parent, err := d.optional(device(address, "physfn"))
	if err != nil {
		return "", fmt.Errorf("device %s: its physical function: %w", address, err)
	}
	if parent == "" {
		return address, nil
	}
	return parent, nil
}

// write does one step and waits for it for at most d.Patience.
func (d *Driver) write(ctx context.Context, path, text string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.Patience, fmt.Errorf("the kernel has not done it after %v", d.Patience))
	defer cancel()
	return wrap.Errorf(d.Kernel.Write(ctx, path, text), "write %q to %s", text, path)
}

// until tries for at most d.Patience.
func (d *Driver) until(ctx context.Context, try func() error) error {
	pause := min(50*time.Millisecond, d.Patience/4)
	for deadline := time.Now().Add(d.Patience); ; {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if ended := clock.Sleep(ctx, pause); ended != nil {
			return fmt.Errorf("%w: %w", err, ended)
		}
	}
}

// bind makes vfio-pci the function's driver.
func (d *Driver) bind(ctx context.Context, address string) error {
	if driver, err := d.optional(device(address, "driver")); err != nil || driver == vfio {
		return err
	}
	if err := d.loadVFIO(ctx); err != nil {
		return err
	}
	if err := d.write(ctx, device(address, "driver_override"), vfio); err != nil {
		return err
	}
	if err := d.unbind(ctx, address); err != nil {
		return err
	}
	if err := d.write(ctx, driversPath, address); err != nil {
		return err
	}
	driver, err := d.optional(device(address, "driver"))
	if err == nil && driver != vfio {
		err = fmt.Errorf("its driver is %q after vfio-pci was asked to take it; the kernel's log says why", driver)
	}
	return err
}

// unbind leaves the function without a driver.
func (d *Driver) unbind(ctx context.Context, address string) error {
	driver, err := d.optional(device(address, "driver"))
	if err != nil || driver == "" {
		return err
	}
	if err := d.write(ctx, device(address, "driver/unbind"), address); err != nil {
		return err
	}
	now, err := d.optional(device(address, "driver"))
	if err == nil && now != "" {
		err = fmt.Errorf("its driver is %s after it was taken from %s", now, driver)
	}
	return err
}

// restore gives the function to whichever driver of the host's wants it; a virtual one, whose parent has
// sriov_drivers_autoprobe off, to none.
func (d *Driver) restore(ctx context.Context, address string) error {
	driver, err := d.optional(device(address, "driver"))
	if err != nil {
		return err
	}
	if driver == vfio {
		if err := d.unbind(ctx, address); err != nil {
			return err
		}
	}
	if err := d.write(ctx, device(address, "driver_override"), "\n"); err != nil {
		return err
	}
	override, err := d.Kernel.Read(device(address, "driver_override"))
	if err != nil {
		return err
	}
	if override != "" && override != "(null)" { // as the kernel prints that there is none
		return fmt.Errorf("driver_override is %q after it was emptied", override)
	}
	if driver != "" && driver != vfio {
		return nil
	}
	return d.write(ctx, driversPath, address)
}

// loadVFIO has the kernel load vfio-pci where it has not been yet.
func (d *Driver) loadVFIO(ctx context.Context) error {
	_, err := d.Kernel.List(vfioDriver)
	if !missing(err) {
		return err
	}
	if _, err := d.Tools.Run(ctx, "modprobe", vfio); err != nil {
		return fmt.Errorf("load the driver vfio-pci: %w", err)
	}
	_, err = d.Kernel.List(vfioDriver)
	return err
}
