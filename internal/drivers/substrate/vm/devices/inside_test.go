package devices_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/drivers/substrate/vm/devices/devicestest"
	"muster/internal/inventory/hardware"
)

// inside is the first process of a QEMU hypervisor: it runs through what the driver does, and switches the machine off.
func inside(what string) {
	logf := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	ctx, cancel := context.WithTimeout(context.Background(), 18*time.Minute)
	result := "ok"
	if err := map[string]func(context.Context, func(string, ...any)) error{
		"disks": disks, "nic": adapter, "nested": nested}[what](ctx, logf); err != nil {
		result = err.Error()
	}
	cancel()
	logf("RESULT %s", result)
	syscall.Sync()
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// Addresses that QEMU gives.
const (
	realSSD   = "0000:01:00.0"
	realVF    = "0000:01:00.1"
	realWhole = "0000:02:00.0"
	realNIC   = "0000:01:00.0"
	realNICVF = "0000:01:10.0"
)

// prepareHost loads drivers, proves the contract on a physical function, and makes a driver of devices.
func prepareHost(ctx context.Context, physical, module, ready string, logf func(string, ...any)) (*devices.Driver, error) {
	// The last is a soft dependency of vfio-pci, which busybox's modprobe does not follow.
	for _, module := range []string{module, "vfio-pci", "vfio_iommu_type1"} {
		if _, err := (devices.HostTools{}).Run(ctx, "modprobe", module); err != nil {
			return nil, err
		}
	}
	if err := awaitFile(ready); err != nil {
		return nil, err
	}
	kernel := devices.HostKernel{}
	if err := devicestest.Run(ctx, devicestest.Harness{Kernel: kernel, Physical: physical, Hold: hold, Logf: logf}); err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	d, err := devices.New(devices.Options{
		Kernel: kernel, Links: devices.HostLinks{}, Tools: devices.HostTools{},
		Eraser: devices.HostEraser{Tools: devices.HostTools{}, Console: os.Stdout}, Dir: "/run/devices",
	})
	if err != nil {
		return nil, err
	}
	if err := d.CreateVFs(ctx, physical, 2); err != nil {
		return nil, err
	}
	for _, i := range hardware.Tree("/").Devices() {
		logf("inventory: %s %s of %q in group %s, %d virtual functions, driver %q", i.Kind, i.PCI, i.Parent, i.Group, i.VFs,
			i.Driver)
	}
	return d, nil
}

func disks(ctx context.Context, logf func(string, ...any)) error {
	// Of two controllers that are found at the same time either may be the first.
	d, err := prepareHost(ctx, realSSD, "nvme", "/dev/nvme[01]n1", logf)
	if err != nil {
		return err
	}
	for _, address := range []string{realVF, realWhole} {
		if err := roundTrip(ctx, d, devices.Want{Guest: "g1", PCI: address}, func() error { return nil }, logf); err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
	}
	return d.CreateVFs(ctx, realSSD, 0)
}

func adapter(ctx context.Context, logf func(string, ...any)) error {
	d, err := prepareHost(ctx, realNIC, "igb", "/sys/class/net/eth0", logf)
	if err != nil {
		return err
	}
	show := func(when string) error {
		s, err := devices.HostLinks{}.VF(ctx, "eth0", 0)
		logf("%s: mac %s, vlan %s, spoofchk %s, trust %s, state %s", when, s["mac"], s["vlan"], s["spoofchk"], s["trust"],
			s["state"])
		return err
	}
	want := devices.Want{Guest: "g1", PCI: realNICVF, MAC: "02:00:00:00:00:07", VLAN: 12}
	if err := roundTrip(ctx, d, want, func() error { return show("prepared") }, logf); err != nil {
		return err
	}
	if err := show("taken back"); err != nil {
		return err
	}
	return d.CreateVFs(ctx, realNIC, 0)
}

// nested gives a virtual function to a QEMU.
func nested(ctx context.Context, logf func(string, ...any)) error {
	d, err := prepareHost(ctx, realSSD, "nvme", "/dev/nvme0", logf)
	if err != nil {
		return err
	}
	if err := d.Prepare(ctx, devices.Want{Guest: "g1", PCI: realVF}); err != nil {
		return err
	}
	qemu := exec.CommandContext(ctx, "/usr/bin/qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "qemu64", "-m", "256",
		"-nodefaults", "-display", "none",
		"-vga", "none", "-serial", "stdio", "-no-reboot", "-kernel", "/nested/vmlinuz", "-initrd", "/nested/initrd", "-append",
		"console=ttyS0 quiet panic=-1 no_timer_check",
		"-device", "vfio-pci,host="+realVF)
	qemu.Stdout, qemu.Stderr = os.Stdout, os.Stdout
	began := time.Now()
	if err := qemu.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- qemu.Wait() }()
	for given := false; ; {
		if !given && state(d, realVF, devices.Given) == nil {
			given = true
			logf("the driver says: given")
		}
		select {
		case err := <-ended:
			logf("the guest has ended after %.0f s: %v", time.Since(began).Seconds(), err)
			if err != nil {
				return err
			}
			if err := d.Release(ctx, realVF, "g1"); err != nil {
				return err
			}
			logf("taken back: %s", realVF)
			return state(d, realVF, devices.Free)
		case <-time.After(time.Second):
		}
	}
}

// roundTrip gives a device to a guest, who opens it as QEMU would, and takes it back.
func roundTrip(ctx context.Context, d *devices.Driver, want devices.Want, prepared func() error,
	logf func(string, ...any)) error {
	address := want.PCI
	began := time.Now()
	for range 2 { // it may be repeated
		if err := d.Prepare(ctx, want); err != nil {
			return err
		}
	}
	logf("prepared in %.2f s", time.Since(began).Seconds())
	if err := prepared(); err != nil {
		return err
	}
	group, err := devices.HostKernel{}.Read("bus/pci/devices/" + address + "/iommu_group")
	if err != nil {
		return err
	}
	class, leave, err := open(address, group)
	if err != nil {
		return fmt.Errorf("open group %s as a guest: %w", group, err)
	}
	logf("given: VFIO reads class %04x of %s", class, address)
	if err := state(d, address, devices.Given); err != nil {
		return err
	}
	if err := d.Release(ctx, address, "g1"); !errors.Is(err, devices.ErrHeld) {
		return fmt.Errorf("release while the guest has it: %v", err)
	}
	if err := leave(); err != nil {
		return err
	}
	began = time.Now()
	if err := d.Release(ctx, address, "g1"); err != nil {
		return err
	}
	logf("taken back: %s in %.2f s", address, time.Since(began).Seconds())
	return state(d, address, devices.Free)
}

func state(d *devices.Driver, address string, want devices.State) error {
	all, err := d.List()
	got := devices.Free
	for _, s := range all {
		if s.PCI == address {
			got = s.State
		}
	}
	if err == nil && got != want {
		err = fmt.Errorf("%s is %s, want %s", address, got, want)
	}
	return err
}

// awaitFile waits for a file that matches a pattern.
func awaitFile(pattern string) error {
	for range 6000 { // minutes: the host may be busy
		if found, err := filepath.Glob(pattern); err != nil || len(found) > 0 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("there is no %s", pattern)
}

// hold opens an IOMMU group's device and nothing more.
func hold(_, group string) (func() error, error) {
	f, err := os.OpenFile("/dev/vfio/"+group, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}

// Requests of include/uapi/linux/vfio.h.
const (
	setIOMMU     = ';'<<8 | 102
	setContainer = ';'<<8 | 104
	getDevice    = ';'<<8 | 106
	type1        = 1
	configRegion = 7 << 40
)

func ioctl(f *os.File, request uintptr, argument uintptr) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, argument)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// open does what QEMU does with a device, and reads its class through VFIO.
func open(address, group string) (class int, leave func() error, err error) {
	container, err := os.OpenFile("/dev/vfio/vfio", os.O_RDWR, 0)
	if err != nil {
		return 0, nil, err
	}
	g, err := os.OpenFile("/dev/vfio/"+group, os.O_RDWR, 0)
	if err != nil {
		return 0, nil, errors.Join(err, container.Close())
	}
	closeAll := func() error { return errors.Join(g.Close(), container.Close()) }
	number := int32(container.Fd())
	name := append([]byte(address), 0)
	fd := 0
	if _, err = ioctl(g, setContainer, uintptr(unsafe.Pointer(&number))); err == nil {
		_, err = ioctl(container, setIOMMU, type1)
	}
	if err == nil {
		fd, err = ioctl(g, getDevice, uintptr(unsafe.Pointer(&name[0])))
	}
	if err != nil {
		return 0, nil, errors.Join(err, closeAll())
	}
	device := os.NewFile(uintptr(fd), address)
	word := make([]byte, 2)
	const subclass = 0x0a
	if _, err := device.ReadAt(word, configRegion+subclass); err != nil {
		return 0, nil, errors.Join(err, device.Close(), closeAll())
	}
	return int(word[1])<<8 | int(word[0]), func() error { return errors.Join(device.Close(), closeAll()) }, nil
}
