package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/drivers/substrate/vm/domain"
	"muster/internal/inventory"
)

// Receive makes a place for a guest that comes with this description, and says how it is to be described here. What was there of
// an earlier try is removed. substrate.ErrRefused if the host cannot have it, or not as the same machine. What a guest boots from
// is laid out as for a boot, from the same image: its QEMU has the files open for as long as it runs. Its plan is not: that was
// read long ago, and its token is used up.
func (d *Driver) Receive(ctx context.Context, n substrate.Node, description string) (here string, err error) {
	switch {
	case n.Allocation == nil:
		return "", fmt.Errorf("node %s has nothing of this host: it is no guest", n.Node)
	case len(n.Allocation.Devices) > 0:
		return "", fmt.Errorf("%w: a guest with devices of its host cannot move", substrate.ErrRefused)
	}
	home, held, release, err := d.hold(ctx, n.Ref)
	if err != nil {
		return "", err
	}
	defer release()
	highest, err := onhost.Highest(home)
	if err != nil {
		return "", err
	}
	b := d.bootAt(home, n.Boot)
	switch seen, complete := b.read(); {
	case n.Boot < highest:
		return "", fmt.Errorf("%w: boot %d was asked for already", substrate.ErrStale, highest)
	case complete && seen.QEMU.Runs():
		return "", fmt.Errorf("node %s runs here", n.Node)
	}
	if err := d.removeBoots(ctx, home, substrate.Ref{Cluster: n.Cluster, Node: n.Node}); err != nil {
		return "", fmt.Errorf("remove what was left: %w", err)
	}
	if err := errors.Join(onhost.Raise(home, n.Boot), os.Chmod(home, 0o711)); err != nil {
		return "", err
	}
	return d.layOutFor(ctx, held, b, n, description)
}

// layOutFor makes a boot as make does, up to where its QEMU would start: libvirt starts that when the guest comes.
func (d *Driver) layOutFor(ctx context.Context, held *onhost.Hold, b boot, n substrate.Node, description string) (here string,
	err error) {
	var facts inventory.Facts
	var user int
	var described domain.Domain
	err = inOrder(held, []step{
		{"directory", func() error { return errors.Join(os.Mkdir(b.dir, 0o711), os.Chmod(b.dir, 0o711)) }},
		d.takeFor(ctx, b, &n, &facts, &user),
		{"files", func() error {
			if _, err := d.linkFiles(b, n.Image); err != nil {
				return err
			}
			return errors.Join(writeFor(user, b.path(initramfsFile), padding(1)), writeFor(user, b.path(consoleFile)))
		}},
		{"description", func() (err error) {
			if described, err = d.describe(b, n, facts); err != nil {
				return err
			}
			if here, err = domain.Elsewhere(description, described); err != nil {
				err = fmt.Errorf("%w: %w", substrate.ErrRefused, err)
			}
			return err
		}},
		{"libvirt", func() error {
			v, err := d.connect(ctx)
			if err == nil {
				v.close()
			}
			return err
		}},
		{"tap", func() error {
			return makeTap(d.netns(), substrate.PortName(n.Node), domain.Queues(len(described.Pins)))
		}},
	})
	if err != nil {
		return "", err
	}
	return here, nil
}

// Dial reaches this host's libvirt.
func (d *Driver) Dial(ctx context.Context) (net.Conn, error) {
	if _, runs := d.libvirt(); !runs {
		return nil, errors.New("no guest is awaited here: libvirt does not run")
	}
	return dialSocket(ctx, d.folder("run"))
}

// Arrive lets a guest run whose memory has come whole; ErrNotHere if it has not. The guest must have ended where it was.
func (d *Driver) Arrive(ctx context.Context, n substrate.Node) error {
	home, held, release, err := d.hold(ctx, n.Ref)
	if err != nil {
		return err
	}
	defer release()
	collect()
	b := d.bootAt(home, n.Boot)
	p, given, err := b.part()
	if err != nil {
		return err
	}
	emulators, err := d.emulators(b.name)
	switch {
	case err != nil:
		return err
	case !given || len(emulators) != 1:
		return fmt.Errorf("%w: nothing of it has come", ErrNotHere)
	}
	v, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	switch state, err := v.state(ctx, b.name); {
	case err != nil:
		return err
	case state == running:
		return nil
	case state != paused:
		return fmt.Errorf("%w: it is %s", ErrNotHere, state)
	}
	n.Allocation = &p.Allocation
	return d.wake(ctx, held, v, b, n, emulators[0])
}

// wake lets a guest run whose memory is whole and whose CPUs stand still: the last steps of make.
func (d *Driver) wake(ctx context.Context, held *onhost.Hold, v *virt, b boot, n substrate.Node, emulator onhost.Process) error {
	facts, err := d.config.Facts(ctx)
	if err != nil {
		return err
	}
	described, err := d.describe(b, n, facts)
	if err != nil {
		return err
	}
	return inOrder(held, []step{
		{"network", func() error { return d.config.Ports.PlugPort(ctx, n, d.netns()) }},
		{"initramfs", func() error { return missing(os.Remove(b.path(initramfsFile))) }},
		{"CPUs", func() error { return d.settle(b, n, emulator, described) }},
		{"resume", func() error { return v.resume(ctx, b.name) }},
	})
}
