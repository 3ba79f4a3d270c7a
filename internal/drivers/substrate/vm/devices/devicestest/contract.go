// Package devicestest is what the driver of devices relies on in a kernel, as a test that the real one and the fake one
// pass alike.
//
// What enters: a Harness with a physical function of SR-IOV that is not in use. What leaves: failures that name the promise that
// the kernel did not keep.
package devicestest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/vm/devices"
)

// Harness is a machine.
type Harness struct {
	Kernel devices.Kernel
	// address of a function with its own driver, that can have at least two virtual ones, each in a group of its own
	Physical string
	// Hold opens an IOMMU group's device, and returns how to close it.
	Hold func(address, group string) (release func() error, err error)
	// Logf hears of each promise that was kept.
	Logf func(format string, args ...any)
}

type contract struct {
	Harness
	total, first, second string // how many virtual functions there can be, and two of them
}

// Run goes through the promises, and ends with the first that is not kept. It needs no testing.T, so that it runs where
// there is none: in a machine's first process.
func Run(ctx context.Context, h Harness) error {
	c := &contract{Harness: h}
	for _, p := range []struct {
		promise string
		check   func(context.Context) error
	}{
		{"a physical function says how many virtual ones it can have", c.counts},
		{"more virtual functions than there can be are refused", c.tooMany},
		{"virtual functions appear without a driver when drivers are not to probe", c.divide},
		{"their number changes only from and to 0", c.busy},
		{"each is in an IOMMU group of its own", c.groups},
		{"a driver that is asked for by name gets the device at the next probe", c.override},
		{"whoever has a group open is found", c.holders},
		{"a device that is not the driver's cannot be taken from it", c.wrongUnbind},
		{"a reset works while VFIO has the device, and its configuration space answers", c.reset},
		{"without an override, virtual functions stay without a driver", c.restore},
		{"what is not there does not exist", c.missing},
		{"0 takes all virtual functions away", c.undivide},
	} {
		if err := p.check(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.promise, err)
		}
		c.Logf("kept: %s", p.promise)
	}
	return nil
}

func file(address, name string) string { return "bus/pci/devices/" + address + "/" + name }

func (c *contract) reads(want string, paths ...string) error {
	for _, path := range paths {
		got, err := c.Kernel.Read(path)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s reads %q, want %q", path, got, want)
		}
	}
	return nil
}

func (c *contract) absent(paths ...string) error {
	for _, path := range paths {
		if got, err := c.Kernel.Read(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s reads %q, %v", path, got, err)
		}
	}
	return nil
}

// refused wants one of some errors.
func refused(err error, wants ...error) error {
	for _, want := range wants {
		if errors.Is(err, want) {
			return nil
		}
	}
	return fmt.Errorf("got %v, want %v", err, wants)
}

func (c *contract) counts(context.Context) (err error) {
	c.total, err = c.Kernel.Read(file(c.Physical, "sriov_totalvfs"))
	return errors.Join(err, c.reads("0", file(c.Physical, "sriov_numvfs")),
		c.absent(file(c.Physical, "virtfn0"), file(c.Physical, "physfn")))
}

func (c *contract) tooMany(ctx context.Context) error {
	n, err := strconv.Atoi(c.total)
	if err != nil {
		return err
	}
	return refused(c.Kernel.Write(ctx, file(c.Physical, "sriov_numvfs"), strconv.Itoa(n+1)), unix.ERANGE)
}

func (c *contract) divide(ctx context.Context) (err error) {
	if err := c.Kernel.Write(ctx, file(c.Physical, "sriov_drivers_autoprobe"), "0"); err != nil {
		return err
	}
	if err := c.Kernel.Write(ctx, file(c.Physical, "sriov_numvfs"), "2"); err != nil {
		return err
	}
	if c.first, err = c.Kernel.Read(file(c.Physical, "virtfn0")); err != nil {
		return err
	}
	if c.second, err = c.Kernel.Read(file(c.Physical, "virtfn1")); err != nil {
		return err
	}
	return errors.Join(c.reads("2", file(c.Physical, "sriov_numvfs")),
		c.reads(c.Physical, file(c.first, "physfn"), file(c.second, "physfn")),
		c.absent(file(c.first, "driver"), file(c.second, "driver"), file(c.Physical, "virtfn2")))
}

func (c *contract) busy(ctx context.Context) error {
	return errors.Join(
		refused(c.Kernel.Write(ctx, file(c.Physical, "sriov_numvfs"), "1"), unix.EBUSY),
		c.Kernel.Write(ctx, file(c.Physical, "sriov_numvfs"), "2"),
		c.reads("2", file(c.Physical, "sriov_numvfs")))
}

func (c *contract) groups(context.Context) error {
	for _, address := range []string{c.first, c.second} {
		group, err := c.Kernel.Read(file(address, "iommu_group"))
		if err != nil {
			return err
		}
		members, err := c.Kernel.List("kernel/iommu_groups/" + group + "/devices")
		if err != nil {
			return err
		}
		if !slices.Equal(members, []string{address}) {
			return fmt.Errorf("group %s of %s has %q", group, address, members)
		}
	}
	return nil
}

func (c *contract) override(ctx context.Context) error {
	if err := c.reads("(null)", file(c.first, "driver_override")); err != nil {
		return err
	}
	if err := c.Kernel.Write(ctx, file(c.first, "driver_override"), "vfio-pci"); err != nil {
		return err
	}
	if err := c.Kernel.Write(ctx, "bus/pci/drivers_probe", c.first); err != nil {
		return err
	}
	names, err := c.Kernel.List("bus/pci/drivers/vfio-pci")
	if err == nil && !slices.Contains(names, c.first) {
		err = fmt.Errorf("vfio-pci has %q", names)
	}
	return errors.Join(err, c.reads("vfio-pci", file(c.first, "driver"), file(c.first, "driver_override")))
}

func (c *contract) holders(context.Context) error {
	group, err := c.Kernel.Read(file(c.first, "iommu_group"))
	if err != nil {
		return err
	}
	count := func(want int) error {
		pids, err := c.Kernel.Holders(group)
		if err == nil && len(pids) != want {
			err = fmt.Errorf("processes %v have the group open, want %d of them", pids, want)
		}
		return err
	}
	if err := count(0); err != nil {
		return err
	}
	release, err := c.Hold(c.first, group)
	if err != nil {
		return err
	}
	return errors.Join(count(1), release(), count(0))
}

func (c *contract) wrongUnbind(ctx context.Context) error {
	return errors.Join(
		refused(c.Kernel.Write(ctx, file(c.first, "driver/unbind"), c.second), unix.ENODEV),
		refused(c.Kernel.Write(ctx, file(c.second, "driver/unbind"), c.second), fs.ErrNotExist),
		refused(c.Kernel.Write(ctx, "bus/pci/drivers_probe", "ffff:ff:1f.7"), unix.ENODEV),
		c.reads("vfio-pci", file(c.first, "driver")))
}

func (c *contract) reset(ctx context.Context) error {
	if err := c.Kernel.Write(ctx, file(c.first, "reset"), "1"); err != nil {
		return err
	}
	space, err := c.Kernel.Read(file(c.first, "config"))
	if err == nil && (len(space) < 64 || space[8:12] == "\xff\xff\xff\xff") {
		err = fmt.Errorf("%d bytes: %q", len(space), space)
	}
	return errors.Join(err, c.reads("vfio-pci", file(c.first, "driver")))
}

func (c *contract) restore(ctx context.Context) error {
	for _, w := range [][2]string{
		{file(c.first, "driver/unbind"), c.first}, {file(c.first, "driver_override"), "\n"}, {"bus/pci/drivers_probe", c.first},
	} {
		if err := c.Kernel.Write(ctx, w[0], w[1]); err != nil {
			return err
		}
	}
	return errors.Join(c.reads("(null)", file(c.first, "driver_override")), c.absent(file(c.first, "driver")))
}

func (c *contract) missing(ctx context.Context) error {
	_, err := c.Kernel.List("kernel/iommu_groups/none/devices")
	return errors.Join(refused(err, fs.ErrNotExist), c.absent(file("ffff:ff:1f.7", "class")),
		refused(c.Kernel.Write(ctx, file("ffff:ff:1f.7", "driver_override"), "x"), fs.ErrNotExist))
}

func (c *contract) undivide(ctx context.Context) error {
	if err := c.Kernel.Write(ctx, file(c.Physical, "sriov_numvfs"), "0"); err != nil {
		return err
	}
	return c.absent(file(c.Physical, "virtfn0"), file(c.first, "class"))
}
