package devices

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"muster/internal/kit/wrap"
)

// eraseWhole erases all disks of an NVMe controller, which the host's driver has just taken.
func (d *Driver) eraseWhole(ctx context.Context, address string) error {
	var disks []string
	err := d.until(ctx, func() (err error) {
		disks, err = d.allDisks(ctx, address)
		return err
	})
	if err != nil {
		return err
	}
	return wrap.Errorf(d.Eraser.Erase(ctx, disks, false), "erase %v", disks)
}

// allDisks fails while a namespace has no disk: the kernel may still be looking, or the guest has detached it, and the
// next one could attach it.
func (d *Driver) allDisks(ctx context.Context, address string) ([]string, error) {
	_, path, err := d.controller(address)
	if err != nil {
		return nil, err
	}
	disks, err := d.disks(address, 0)
	if err != nil {
		return nil, err
	}
	if len(disks) == 0 {
		return nil, fmt.Errorf("%s has no disk, so that nothing can be erased", path)
	}
	data, err := d.identify(ctx, path, identifyAllocated, 0)
	if err != nil {
		return disks, nil // a controller that does not manage namespaces hides none
	}
	if all := parseNamespaces(data); len(all) > len(disks) {
		return nil, fmt.Errorf("%s has %d namespaces and %d disks, so that not all can be erased; attach the others (nvme "+
			"attach-ns)", path, len(all), len(disks))
	}
	return disks, nil
}

// eraseOne erases one namespace of a controller whose others are in use.
func (d *Driver) eraseOne(ctx context.Context, address string, namespace int) error {
	var disks []string
	err := d.until(ctx, func() (err error) {
		disks, err = d.disks(address, namespace)
		if err == nil && len(disks) != 1 {
			err = fmt.Errorf("namespace %d of %s has %d disks, so that it cannot be erased", namespace, address, len(disks))
		}
		return err
	})
	if err != nil {
		return err
	}
	return wrap.Errorf(d.Eraser.Erase(ctx, disks, true), "erase %s", disks[0])
}

// disks are the names of a controller's disks; of one namespace, unless it is 0. With the kernel's multipathing a disk
// belongs to the subsystem, and that to the controller.
func (d *Driver) disks(address string, namespace int) ([]string, error) {
	controller, _, err := d.controller(address)
	if err != nil {
		return nil, err
	}
	blocks, err := d.Kernel.List("block")
	if err != nil {
		return nil, fmt.Errorf("disks: %w", err)
	}
	form := regexp.MustCompile(`^nvme\d+n\d+$`)
	var disks []string
	for _, name := range blocks {
		if !form.MatchString(name) {
			continue
		}
		owner, err := d.optional("block/" + name + "/device")
		if err != nil {
			return nil, fmt.Errorf("disk %s: %w", name, err)
		}
		members, err := d.Kernel.List("class/nvme-subsystem/" + owner)
		if err != nil && !missing(err) {
			return nil, fmt.Errorf("disk %s: %w", name, err)
		}
		if owner != controller && !slices.Contains(members, controller) {
			continue
		}
		nsid, err := d.Kernel.Read("block/" + name + "/nsid")
		if err != nil {
			return nil, fmt.Errorf("disk %s: %w", name, err)
		}
		if namespace == 0 || nsid == strconv.Itoa(namespace) {
			disks = append(disks, name)
		}
	}
	return disks, nil
}
