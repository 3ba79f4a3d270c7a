package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/drivers/substrate/vm/domain"
	"muster/internal/inventory"
	"muster/internal/kit/files"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Ensure makes the node run this boot. If it fails or is killed on the way, what it made stays, visible to Observe and
// List, for the next Ensure or Remove to take away.
func (d *Driver) Ensure(ctx context.Context, n substrate.Node) error {
	switch {
	case n.Boot < 1:
		return fmt.Errorf("boot %d of node %s: boots count from 1", n.Boot, n.Node)
	case !n.Address.IsValid() || len(n.MAC) != 6:
		return fmt.Errorf("node %s needs an address and a MAC", n.Node)
	case n.Allocation == nil:
		return fmt.Errorf("node %s has nothing of this host: it is no guest", n.Node)
	}
	home, held, release, err := d.hold(ctx, n.Ref)
	if err != nil {
		return err
	}
	defer release()
	return wrap.Errorf(d.ensure(ctx, held, home, n), "boot %d of node %s", n.Boot, n.Node)
}

// ensure runs under the guest's lock, and a shared one of libvirt.
func (d *Driver) ensure(ctx context.Context, held *onhost.Hold, home string, n substrate.Node) error {
	collect()
	highest, err := onhost.Highest(home)
	if err != nil {
		return err
	}
	if n.Boot < highest {
		return fmt.Errorf("%w: boot %d was asked for already", substrate.ErrStale, highest)
	}
	b := d.bootAt(home, n.Boot)
	if n.Boot == highest {
		if seen, err := d.look(ctx, b); err != nil || seen.Running {
			return err
		}
	}
	if err := held.Lost(); err != nil { // what is removed next could be another's work
		return err
	}
	if err := errors.Join(onhost.Raise(home, n.Boot), os.Chmod(home, 0o711)); err != nil {
		return err
	}
	if err := d.removeBoots(ctx, home, n.Ref); err != nil {
		return fmt.Errorf("remove what was left: %w", err)
	}
	return d.make(ctx, held, b, n)
}

// step is one of several, with a name for errors.
type step struct {
	what string
	do   func() error
}

// inOrder takes steps until one fails. Before each it asks whether the lock is still its own; nil: none is held.
func inOrder(held *onhost.Hold, steps []step) error {
	for _, s := range steps {
		if held != nil {
			if err := held.Lost(); err != nil {
				return err
			}
		}
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// takeFor gives a boot its part of the host: it says in the node which, and as whom QEMU runs.
func (d *Driver) takeFor(ctx context.Context, b boot, n *substrate.Node, facts *inventory.Facts, user *int) step {
	return step{"its part of the host", func() error {
		p, as, err := d.take(ctx, b, *n)
		n.Allocation, *facts, *user = &p.Allocation, as, p.User
		return err
	}}
}

// make makes a boot from nothing, its directory first.
func (d *Driver) make(ctx context.Context, held *onhost.Hold, b boot, n substrate.Node) error {
	var v *virt
	var facts inventory.Facts
	var user int
	var described domain.Domain
	var emulator onhost.Process
	defer func() {
		if v != nil {
			v.close()
		}
	}()
	if err := inOrder(held, []step{
		{"directory", func() error { return errors.Join(os.Mkdir(b.dir, 0o711), os.Chmod(b.dir, 0o711)) }},
		d.takeFor(ctx, b, &n, &facts, &user),
		{"files", func() error { return d.writeFiles(b, n, user) }},
		{"devices", func() error { return d.giveDevices(ctx, n, user) }},
		{"description", func() (err error) { described, err = d.describe(b, n, facts); return err }},
		{"libvirt", func() (err error) { v, err = d.connect(ctx); return err }},
		{"tap", func() error {
			return makeTap(d.netns(), substrate.PortName(n.Node), domain.Queues(len(described.Pins)))
		}},
		{"start", func() (err error) { emulator, err = d.start(ctx, v, b, described.XML); return err }},
		{"network", func() error { return d.config.Ports.PlugPort(ctx, n, d.netns()) }},
		// QEMU has read it, and nothing else needs the token that is in it.
		{"initramfs", func() error { return os.Remove(b.path(initramfsFile)) }},
		{"CPUs", func() error { return d.settle(b, n, emulator, described) }},
		{"resume", func() error { return v.resume(ctx, b.name) }},
	}); err != nil {
		return err
	}
	for _, warning := range described.Warnings {
		d.config.Log.Warn("a guest is slower than it could be", "node", n.Name, "machine", n.Machine, "why", warning)
	}
	return nil
}

// start creates the domain, which is there and does not run yet.
func (d *Driver) start(ctx context.Context, v *virt, b boot, xml string) (onhost.Process, error) {
	if err := v.create(ctx, xml); err != nil {
		return onhost.Process{}, fmt.Errorf("%w%s", err, lastWords(b))
	}
	emulators, err := d.emulators(b.name)
	if err != nil {
		return onhost.Process{}, err
	}
	if len(emulators) != 1 {
		return onhost.Process{}, fmt.Errorf("it has %d processes of QEMU", len(emulators))
	}
	return emulators[0], nil
}

// settle puts a QEMU whose virtual CPUs stand still where it belongs, and writes the boot's record, which makes it complete.
func (d *Driver) settle(b boot, n substrate.Node, qemu onhost.Process, described domain.Domain) error {
	if err := d.bound(b, n, qemu, described); err != nil {
		return err
	}
	if err := pin(qemu, described.Pins, described.Besides); err != nil {
		return err
	}
	return b.writeJSON(recordFile, record{qemu, limitsOf(n, described), inventory.CPUList(described.Besides)})
}

func (d *Driver) describe(b boot, n substrate.Node, facts inventory.Facts) (domain.Domain, error) {
	p, _, err := b.part()
	if err != nil {
		return domain.Domain{}, err
	}
	return domain.Describe(domain.Guest{
		Name: b.name, User: p.User, Facts: facts, Allocation: *n.Allocation, KVM: d.kvm(), Vhost: canVhost(),
		Kernel: b.inside(kernelFile), Initramfs: b.inside(initramfsFile), CommandLine: commandLine,
		Root:    domain.Disk{Path: b.inside(rootFile), Serial: protocol.GuestRoot},
		Agent:   domain.Disk{Path: b.inside(agentFile), Serial: protocol.GuestAgent},
		Console: b.inside(consoleFile), NIC: substrate.PortName(n.Node), MAC: n.MAC,
	})
}

// record is what is written of a boot when it is complete.
type record struct {
	QEMU    onhost.Process
	Limits  substrate.Limits
	Besides string // the host's CPUs for all but its virtual CPUs
}

func limitsOf(n substrate.Node, d domain.Domain) substrate.Limits {
	return substrate.Limits{CPU: fmt.Sprintf("%d cpus", len(d.Pins)), Memory: fmt.Sprintf("%d MiB", memoryMiB(n))}
}

// writeJSON writes a file that is there whole or not at all.
func (b boot) writeJSON(name string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return files.Write(b.path(name), text, 0o600)
}

// read is false if the boot was never complete.
func (b boot) read() (record, bool) {
	var r record
	text, err := os.ReadFile(b.path(recordFile))
	return r, err == nil && json.Unmarshal(text, &r) == nil
}
