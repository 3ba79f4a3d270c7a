package accelerators

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
)

// Runner runs programs.
type Runner interface {
	// Run runs a program to its end and returns what it prints.
	Run(ctx context.Context, argv ...string) ([]byte, error)
}

// Drive loads the drivers of the machine's GPUs and HCAs and makes the devices that programs open. What fails is said, and
// gone without: a check tells which GPU is missing.
func Drive(ctx context.Context, programs Runner, t hardware.Tree, say func(format string, args ...any)) {
	for _, module := range modules(t) { // one that the image lacks is not to keep the others away
		if _, err := programs.Run(ctx, "modprobe", "-b", module); err != nil {
			say("driver %s: %v", module, err)
		}
	}
	if err := makeDevices(t); err != nil {
		say("devices of GPUs: %v", err)
	}
}

// modules are the kernel modules that the machine's GPUs and HCAs need. Some have no alias by which a device could ask for
// them, and displays are not asked.
func modules(t hardware.Tree) []string {
	var all []string
	for _, d := range t.Devices() {
		all = append(all, inventory.DriverModules(inventory.DriverOf(d))...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// nvidiaMajor is the number of NVIDIA's devices, and nvidiaControl the minor one of the device for all of them.
const (
	nvidiaMajor   = 195
	nvidiaControl = 255
)

// makeDevices makes what programs open to compute, for all users. NVIDIA's driver leaves that to others (CUDA Installation
// Guide for Linux, "Device Node Verification"); those of Linux make devices that only root may open. A scheduler gives GPUs to
// jobs by their numbers, and keeps no job from opening another.
func makeDevices(t hardware.Tree) error {
	var failed error
	node := func(name string, major, minor uint32) {
		path := t.Path("dev", name)
		err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor)))
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Chmod(path, 0o666)
		}
		failed = errors.Join(failed, err)
	}
	nvidia := false
	for _, g := range GPUs(t) {
		name := strings.TrimPrefix(g.Device, "/dev/")
		number, ours := strings.CutPrefix(name, "nvidia")
		switch {
		case ours:
			minor, _ := strconv.ParseUint(number, 10, 8) // it was made of a number
			node(name, nvidiaMajor, uint32(minor))
			nvidia = true
		case name != "":
			failed = errors.Join(failed, os.Chmod(t.Path("dev", name), 0o666))
		}
	}
	if t.Exists("dev/kfd") { // of amdgpu
		failed = errors.Join(failed, os.Chmod(t.Path("dev/kfd"), 0o666))
	}
	if !nvidia {
		return failed
	}
	node("nvidiactl", nvidiaMajor, nvidiaControl)
	if major := majorOf(t.Text("proc/devices"), "nvidia-uvm"); major > 0 {
		node("nvidia-uvm", major, 0)
		node("nvidia-uvm-tools", major, 1)
	}
	return failed
}

// majorOf finds a name in proc_devices(5): "234 nvidia-uvm".
func majorOf(devices, name string) uint32 {
	for line := range strings.Lines(devices) {
		words := strings.Fields(line)
		if len(words) == 2 && words[1] == name {
			major, err := strconv.ParseUint(words[0], 10, 12)
			if err == nil {
				return uint32(major)
			}
		}
	}
	return 0
}
