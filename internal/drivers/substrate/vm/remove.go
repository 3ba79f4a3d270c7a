package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/netns"
	"muster/internal/kit/wrap"
)

// Remove ends the guest and takes away all that it had; after the last one, libvirt too. It is the hard end: whatever
// deserves care was drained before.
func (d *Driver) Remove(ctx context.Context, r substrate.Ref) error {
	if _, err := d.home(r); err != nil {
		return err
	}
	if err := d.remove(ctx, r); err != nil {
		return fmt.Errorf("remove node %s: %w", r.Node, err)
	}
	return wrap.Errorf(d.Close(ctx), "remove node %s", r.Node)
}

func (d *Driver) remove(ctx context.Context, r substrate.Ref) error {
	home, _, release, err := d.hold(ctx, r)
	if err != nil {
		return err
	}
	defer release()
	if err := d.removeBoots(ctx, home, r); err != nil {
		return err
	}
	if r.Boot == 0 {
		return os.RemoveAll(home)
	}
	return nil
}

// removeBoots removes the boots up to the given one, all with 0. It runs under the guest's lock.
func (d *Driver) removeBoots(ctx context.Context, home string, r substrate.Ref) error {
	boots, err := onhost.Boots(home)
	if err != nil {
		return err
	}
	for _, number := range boots {
		if r.Boot > 0 && number > r.Boot {
			continue
		}
		if err := d.removeBoot(ctx, d.bootAt(home, number), r); err != nil {
			return err
		}
	}
	return nil
}

// removeBoot removes a boot in any state.
func (d *Driver) removeBoot(ctx context.Context, b boot, r substrate.Ref) error {
	if err := d.letGo(ctx, b, r); err != nil {
		return err
	}
	if err := d.takeDevices(ctx, r.Node); err != nil {
		return err
	}
	if err := errors.Join(erase(ctx, b.memoryPath(memoryFile)), erase(ctx, b.memoryPath(usedFile))); err != nil {
		return err
	}
	if err := missing(os.Remove(d.qemuLog(b.name))); err != nil { // libvirt never does
		return err
	}
	return os.RemoveAll(b.dir)
}

// letGo takes away what a boot has that is not in its directory. QEMU is found by itself, whatever libvirt knows of it, and
// killed by us: libvirt, which waits for it to be gone, would wait in vain where we are the ones to collect it.
func (d *Driver) letGo(ctx context.Context, b boot, r substrate.Ref) error {
	return inOrder(nil, []step{
		{"QEMU", func() error { return d.endEmulators(ctx, b) }},
		{"libvirt", func() error { return d.forget(ctx, b) }},
		{"control group", func() error { return d.cgroups.Remove(ctx, b.name) }},
		{"network port", func() error { return d.config.Ports.DropPort(ctx, r.Cluster, r.Node) }},
		{"tap", func() error { return netns.Drop(d.netns(), substrate.PortName(r.Node)) }},
	})
}

func (d *Driver) endEmulators(ctx context.Context, b boot) error {
	left, err := d.emulators(b.name)
	if err != nil {
		return err
	}
	for _, p := range left {
		if err := onhost.KillPid(ctx, p.PID); err != nil {
			return fmt.Errorf("end QEMU: %w", err)
		}
	}
	collect()
	return nil
}

// forgetWithin is how long libvirt may take to see that a QEMU is gone.
const forgetWithin = 30 * time.Second

// forget returns when libvirt, if it runs, has no such domain any more. One that it was about to start it is told to end.
func (d *Driver) forget(ctx context.Context, b boot) error {
	if _, runs := d.libvirt(); !runs {
		return nil // it learns it at its next start
	}
	v, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	return onhost.Until(ctx, forgetWithin, func() (bool, error) {
		if err := d.endEmulators(ctx, b); err != nil {
			return false, err
		}
		state, err := v.state(ctx, b.name)
		if err != nil || state == absent {
			return err == nil, err
		}
		return false, v.destroy(ctx, b.name)
	})
}

// Close ends libvirt and removes what it had, unless there is a guest.
func (d *Driver) Close(ctx context.Context) error {
	// Where there is one, Close does not wait for libvirt's lock: calls that start or look at a guest have it, and that can be
	// all the time.
	if there, err := onhost.List(d.guests()); err != nil || len(there) > 0 {
		return err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("libvirt"))
	if err != nil {
		return err
	}
	defer held.Release()
	left, err := onhost.List(d.guests())
	if err != nil || len(left) > 0 {
		return err
	}
	if err := d.stopLibvirt(ctx); err != nil {
		return fmt.Errorf("end libvirt: %w", err)
	}
	collect()
	return nil
}
