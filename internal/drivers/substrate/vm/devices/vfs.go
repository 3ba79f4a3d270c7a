package devices

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"muster/internal/kit/wrap"
)

// CreateVFs divides a physical function into so many virtual ones, which the host's drivers do not take; 0: into none. It may be
// repeated. While one of those that are there is in use, their number does not change.
func (d *Driver) CreateVFs(ctx context.Context, physical string, want int) error {
	return wrap.Errorf(d.createVFs(ctx, physical, want), "divide device %s into %d virtual functions", physical, want)
}

func (d *Driver) createVFs(ctx context.Context, physical string, want int) error {
	if !isAddress(physical) {
		return errors.New("not a PCI address; one looks like 0000:3b:00.0")
	}
	release, err := d.family(ctx, physical)
	if err != nil {
		return err
	}
	defer release()
	f, err := d.look(physical)
	if err != nil {
		return err
	}
	total, err := d.count(physical, "sriov_totalvfs")
	switch {
	case missing(err):
		return errors.New("it offers no SR-IOV: switch it on in the machine's firmware (SR-IOV) and in the adapter's own")
	case err != nil:
		return err
	case want < 0 || want > total:
		return fmt.Errorf("it can have 0 to %d", total)
	}
	if r, err := d.record(physical); err != nil {
		return err
	} else if r != nil {
		return fmt.Errorf("guest %s has it whole: %w", r.Guest, ErrTaken)
	}
	if f.driver == "" || f.driver == vfio {
		return fmt.Errorf("its driver is %q: only the host's own driver divides it", f.driver)
	}
	if err := d.setting(ctx, physical, "sriov_drivers_autoprobe", 0); err != nil {
		return err
	}
	now, err := d.count(physical, "sriov_numvfs")
	if err != nil {
		return err
	}
	if now != want {
		if f.driver == "mlx4_core" {
			return fmt.Errorf("it has %d, and its driver mlx4_core makes them only when it is loaded: write \"options "+
				"mlx4_core num_vfs=%d probe_vf=0\" to /etc/modprobe.d and start the host again", now, want)
		}
		if err := d.unused(physical); err != nil {
			return err
		}
		if now != 0 { // the kernel changes the number only from 0 and to 0
			if err := d.setting(ctx, physical, "sriov_numvfs", 0); err != nil {
				return err
			}
		}
		if f.class == classNVMe && want > 0 {
			if err := d.nvmePrimary(ctx, physical); err != nil {
				return err
			}
		}
		if want > 0 {
			if err := d.setting(ctx, physical, "sriov_numvfs", want); err != nil {
				return err
			}
		}
	}
	vfs, err := d.virtual(physical)
	if err == nil && len(vfs) != want {
		err = fmt.Errorf("it has %d of them", len(vfs))
	}
	if err != nil {
		return err
	}
	return d.hideNew(ctx, physical, vfs)
}

// hideNew takes the default partition, which new virtual functions see on adapters that map partitions, from all that are no
// guest's.
func (d *Driver) hideNew(ctx context.Context, physical string, vfs []string) error {
	a, err := d.rdma(physical)
	if err != nil || a == nil {
		return err
	}
	for number, address := range vfs {
		r, err := d.record(address)
		if err != nil {
			return err
		}
		if r == nil {
			if err := d.hide(ctx, a, number); err != nil {
				return err
			}
		}
	}
	return nil
}

// count reads a file with a number.
func (d *Driver) count(address, file string) (int, error) {
	text, err := d.Kernel.Read(device(address, file))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%s reads %q: %w", file, text, err)
	}
	return int(n), nil
}

// setting writes a number and reads it back.
func (d *Driver) setting(ctx context.Context, address, file string, want int) error {
	now, err := d.count(address, file)
	if err != nil || now == want {
		return err
	}
	if err := d.write(ctx, device(address, file), strconv.Itoa(want)); err != nil {
		return err
	}
	now, err = d.count(address, file)
	if err == nil && now != want {
		err = fmt.Errorf("%s reads %d after %d was written", file, now, want)
	}
	return err
}

// unused refuses while somebody has one of the virtual functions.
func (d *Driver) unused(physical string) error {
	vfs, err := d.virtual(physical)
	if err != nil {
		return err
	}
	for _, address := range vfs {
		r, err := d.record(address)
		if err != nil {
			return err
		}
		if r != nil {
			return fmt.Errorf("guest %s has %s: %w", r.Guest, address, ErrTaken)
		}
		f, err := d.look(address)
		if err != nil {
			return err
		}
		if f.driver != "" && f.driver != vfio {
			return fmt.Errorf("the host's driver %s has %s: unbind it there first", f.driver, address)
		}
		holders, err := d.holders(address)
		if err != nil {
			return err
		}
		if len(holders) > 0 {
			return fmt.Errorf("process %d has %s open: %w", holders[0], address, ErrHeld)
		}
	}
	return nil
}
