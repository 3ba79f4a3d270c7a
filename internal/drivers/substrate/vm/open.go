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
)

// guests are those on this host, and those on machines of their own. Who carries one is asked each time.
type guests struct {
	substrate.Hosts
	env     substrate.Env
	here    *Driver         // nil: this host holds no guests
	devices *devices.Driver // nil, too
}

var (
	_ substrate.Inspector = guests{}
	_ substrate.Hosts     = guests{}
	_ substrate.Emulator  = guests{}
	_ substrate.Worker    = guests{}
)

// errNoGuests is what is said of guests that this host is to hold, where it holds none. Others may: it knows nothing of theirs.
var errNoGuests = errors.New("this controller's host holds no guests; start it with --local-hypervisor")

// openDriver makes the substrate of guests: on machines of their own, and on this host, if it holds any, or did before.
func openDriver(ctx context.Context, e substrate.Env) (substrate.Substrate, error) {
	g := guests{Hosts: e.Hosts, env: e}
	if _, err := os.Stat(e.Dir); err != nil && !e.Host.Guests {
		return g, nil
	}
	// libvirt lets go of the QEMUs that it starts; as a subreaper this process learns how they end.
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	if g.devices, err = devices.New(devices.Options{
		Kernel: devices.HostKernel{}, Links: devices.HostLinks{}, Tools: devices.HostTools{},
		Eraser: devices.HostEraser{Tools: devices.HostTools{}, Console: lines{e.Log}}, Dir: filepath.Join(e.Dir, "devices"),
	}); err != nil {
		return nil, err
	}
	g.here, err = New(Config{
		Dir: e.Dir, Binary: e.Binary, Devices: g.devices, Ports: e.Networks, Log: e.Log, Images: g.image,
		FirstStage: sync.OnceValues(initramfs.Archive),
		Facts:      func(context.Context) (inventory.Facts, error) { return hardware.Host() },
	})
	if err != nil {
		return nil, err
	}
	g.divide(ctx)
	return g, nil
}

// image finds the files that a guest boots from.
func (g guests) image(digest string) (Image, error) {
	image, err := g.env.Images.Files(digest)
	if err == nil && image.Kernel == "" {
		err = fmt.Errorf("image %s has no kernel", image.Name)
	}
	return Image{Kernel: image.Kernel, Drivers: image.Drivers, Root: image.Root}, err
}

// of finds who carries, or carried, a node's guest.
func (g guests) of(ctx context.Context, node string) (s substrate.Substrate, elsewhere bool, err error) {
	elsewhere, err = g.Carries(ctx, node)
	switch {
	case err != nil:
	case elsewhere:
		s = g.Hosts
	case g.here == nil:
		err = errNoGuests
	default:
		s = g.here
	}
	return s, elsewhere, err
}

// introduce is done before an agent elsewhere calls, over an uplink, and wants an answer.
func (g guests) introduce(ctx context.Context, n substrate.Node) error {
	return g.env.Networks.Introduce(ctx, n.Cluster, n.Address.Addr())
}

// Ensure is Substrate's.
func (g guests) Ensure(ctx context.Context, n substrate.Node) error {
	s, elsewhere, err := g.of(ctx, n.Node)
	if err == nil && elsewhere {
		err = g.introduce(ctx, n)
	}
	if err != nil {
		return err
	}
	return s.Ensure(ctx, n)
}

// Observe is Substrate's.
func (g guests) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	s, _, err := g.of(ctx, r.Node)
	if err != nil {
		return substrate.Observation{}, err
	}
	return s.Observe(ctx, r)
}

// Remove is Substrate's.
func (g guests) Remove(ctx context.Context, r substrate.Ref) error {
	s, _, err := g.of(ctx, r.Node)
	if err != nil {
		return err
	}
	return s.Remove(ctx, r)
}

// List is Substrate's.
func (g guests) List(ctx context.Context) ([]substrate.Ref, error) {
	all, err := g.Hosts.List(ctx)
	if err != nil || g.here == nil {
		return all, err
	}
	here, err := g.here.List(ctx)
	return append(here, all...), err
}

// Emulates is Emulator's.
func (g guests) Emulates() bool { return g.here != nil && g.here.Emulates() }

// own says that a host is this one.
func (g guests) own(host string) bool { return host == g.env.Host.Machine }

// Reaches is Mover's. From this host and to it no guest moves: it has no agent that would carry one.
func (g guests) Reaches(host string) bool { return !g.own(host) && g.Hosts.Reaches(host) }

// Rests is Sleeper's.
func (g guests) Rests(host string) bool {
	if g.own(host) {
		return g.here != nil
	}
	return g.Hosts.Rests(host)
}

// Sleep is Sleeper's.
func (g guests) Sleep(ctx context.Context, r substrate.Ref, host string) (int64, error) {
	switch {
	case !g.own(host):
		return g.Hosts.Sleep(ctx, r, host)
	case g.here == nil:
		return 0, errNoGuests
	}
	bytes, err := g.here.Sleep(ctx, r)
	return bytes, ended(err)
}

// Wake is Sleeper's.
func (g guests) Wake(ctx context.Context, n substrate.Node, host string) error {
	switch {
	case !g.own(host):
		if err := g.introduce(ctx, n); err != nil {
			return err
		}
		return g.Hosts.Wake(ctx, n, host)
	case g.here == nil:
		return errNoGuests
	}
	return ended(g.here.Wake(ctx, n))
}

// Inspect looks at this host as one that holds guests.
func (g guests) Inspect(context.Context, substrate.Inspection) (substrate.Inspected, error) {
	facts, err := hardware.Host()
	if err == nil && g.devices != nil {
		err = markLost(facts.Devices, g.devices)
	}
	if err != nil {
		return substrate.Inspected{Stuck: "inspection: " + err.Error()}, nil
	}
	return substrate.Inspected{Done: true, Facts: facts}, nil
}

// Rest has nothing to do: what a hypervisor holds beside its guests is nothing.
func (guests) Rest(context.Context, inventory.Machine) (string, error) { return "", nil }
