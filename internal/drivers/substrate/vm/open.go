package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"muster/internal/boot/initramfs"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
	"muster/internal/kit/space"
)

// host is the driver as a site opens it, with what it says of this host.
type host struct {
	*Driver
	env substrate.Env
}

// empty is a host that holds no guests, and of whose guests nothing is known.
type empty struct{}

var (
	_ substrate.Inspector = host{}
	_ substrate.Sleeper   = host{}
	_ substrate.Emulator  = host{}
	_ substrate.Worker    = host{}
	_ substrate.Inspector = empty{}
	_ substrate.Sleeper   = empty{}
	_ substrate.Emulator  = empty{}
)

// openDriver makes the substrate of guests on this host, if it holds any, or did before.
func openDriver(ctx context.Context, e substrate.Env) (substrate.Substrate, error) {
	if _, err := os.Stat(e.Dir); err != nil && !e.Host.Guests {
		return empty{}, nil
	}
	// libvirt lets go of the QEMUs that it starts; as a subreaper this process learns how they end.
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	moved, err := devices.New(devices.Options{
		Kernel: devices.HostKernel{}, Links: devices.HostLinks{}, Tools: devices.HostTools{},
		Eraser: devices.HostEraser{Tools: devices.HostTools{}, Console: lines{e.Log}}, Dir: filepath.Join(e.Dir, "devices"),
	})
	if err != nil {
		return nil, err
	}
	disk, err := space.On(e.Dir, e.Site.Reserve)
	if err != nil {
		return nil, err
	}
	driver, err := New(Config{
		Dir: e.Dir, Reserve: disk.Reserve, Binary: e.Binary, Devices: moved, Ports: e.Networks, Log: e.Log,
		Images:     imagesOf(e.Images),
		FirstStage: sync.OnceValues(initramfs.Archive),
		Facts:      func(context.Context) (inventory.Facts, error) { return hardware.Host() },
	})
	if err != nil {
		return nil, err
	}
	h := host{driver, e}
	h.divide(ctx)
	return h, nil
}

// imagesOf finds the files that guests boot from.
func imagesOf(all substrate.Images) func(digest string) (Image, error) {
	return func(digest string) (Image, error) {
		image, err := all.Files(digest)
		if err == nil && image.Kernel == "" {
			err = fmt.Errorf("image %s has no kernel", image.Name)
		}
		return Image{Kernel: image.Kernel, Drivers: image.Drivers, Root: image.Root}, err
	}
}

// CanSuspend is Sleeper's, as are Sleep and Wake, whatever this host is called.
func (host) CanSuspend(string) bool { return true }

// Sleep is Driver's.
func (h host) Sleep(ctx context.Context, r substrate.Ref, _ string) (int64, error) {
	bytes, err := h.Driver.Sleep(ctx, r)
	return bytes, ended(err)
}

// Wake is Driver's.
func (h host) Wake(ctx context.Context, n substrate.Node, _ string) error {
	return ended(h.Driver.Wake(ctx, n))
}

// Inspect looks at this host as one that holds guests.
func (h host) Inspect(context.Context, substrate.Inspection) (substrate.Inspected, error) {
	return inspected(h.config.Devices), nil
}

// EnsureOff has nothing to do: what a hypervisor holds beside its guests is nothing.
func (host) EnsureOff(context.Context, inventory.Machine) (string, error) { return "", nil }

// inspected is what is found of this host. moved are the devices that guests can be given; nil: there are none.
func inspected(moved *devices.Driver) substrate.Inspected {
	facts, err := hardware.Host()
	if err == nil && moved != nil {
		err = markLost(facts.Devices, moved)
	}
	if err != nil {
		return substrate.Inspected{Stuck: "inspection: " + err.Error()}
	}
	return substrate.Inspected{Done: true, Facts: facts}
}

var errNoGuests = errors.New("this controller's host holds no guests; start it with --local-hypervisor")

// Ensure is Substrate's, as are Observe, Remove and List.
func (empty) Ensure(context.Context, substrate.Node) error { return errNoGuests }

func (empty) Observe(context.Context, substrate.Ref) (substrate.Observation, error) {
	return substrate.Observation{}, errNoGuests
}
func (empty) Remove(context.Context, substrate.Ref) error   { return errNoGuests }
func (empty) List(context.Context) ([]substrate.Ref, error) { return nil, nil }

// CanSuspend is Sleeper's, as are Sleep and Wake.
func (empty) CanSuspend(string) bool { return false }

func (empty) Sleep(context.Context, substrate.Ref, string) (int64, error) { return 0, errNoGuests }
func (empty) Wake(context.Context, substrate.Node, string) error          { return errNoGuests }

// Emulates is Emulator's.
func (empty) Emulates() bool { return false }

// Inspect is Inspector's, as is EnsureOff.
func (empty) Inspect(context.Context, substrate.Inspection) (substrate.Inspected, error) {
	return inspected(nil), nil
}
func (empty) EnsureOff(context.Context, inventory.Machine) (string, error) { return "", nil }
