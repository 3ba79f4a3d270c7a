// Package metal makes nodes exist on whole machines: it switches a machine off, says what it is to boot, and switches it
// on. What happens between is the machine's own way through netboot and its first stage to the agent.
//
// What enters: a node's boot, or an inspection. What leaves: commands to power controls, and what was seen of them. The
// driver keeps nothing itself: what a machine is to boot stands in the Ledger, so that any replica can answer the
// machine and go on with the work. A machine that is switched on stands in the Ledger before it is.
package metal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	switches "muster/internal/drivers/switch"
	"muster/internal/kit/wrap"
)

// Config is what the driver works with.
type Config struct {
	Ledger substrate.Boots
	Power  func(substrate.Machine) (power.Driver, error)
	Again  time.Duration // a machine that is off this long after it was switched on is switched on again
	// Place puts the machine's ports of its network's switch into a segment, and returns when they were seen there. It is
	// called while the machine is off, and may be called again. Nil: no switch is set.
	Place func(context.Context, substrate.Machine, switches.Segment) error
	// Images are those that machines boot for their own sake.
	Images substrate.Images
	Keys   substrate.Keys
}

// Driver is the substrate of whole machines.
type Driver struct {
	config Config
}

var (
	_ substrate.Inspector        = (*Driver)(nil)
	_ substrate.HypervisorBooter = (*Driver)(nil)
)

// New makes a driver.
func New(c Config) *Driver { return &Driver{c} }

// offWithin is how long after a machine was told first it must be seen off.
const offWithin = 45 * time.Second

// Ensure makes a machine run this boot of a node. It is substrate.ErrUnderway while the machine goes off first, and returns nil
// once it was switched on for the boot; until its agent joins, calling again switches a machine that is still, or again, off on
// once more.
func (d *Driver) Ensure(ctx context.Context, n substrate.Node) error {
	m, err := d.config.Ledger.Machine(ctx, n.Machine)
	if err != nil {
		return fmt.Errorf("boot %d of node %s: %w", n.Boot, n.Node, err)
	}
	b := substrate.Boot{Machine: m.ID, Subject: n.Node, Number: n.Boot, Image: n.Image, File: n.File, Disk: n.Disk}
	if _, err := d.boot(ctx, m, b, segment(n)); err != nil {
		return fmt.Errorf("boot %d of node %s: machine %s: %w", n.Boot, n.Node, m.Name, err)
	}
	return nil
}

// segment is that of the node's cluster. A node without a MAC is on no cluster's network.
func segment(n substrate.Node) switches.Segment {
	if len(n.MAC) != 6 {
		return switches.Common
	}
	return switches.Segment(substrate.Segment(n.MAC))
}

// boot takes a machine to a boot, in a segment of its network, and returns what the ledger says of it. The ledger is asked
// before the machine is touched: it refuses a caller that was fenced out. What ran on the machine before is off when it comes
// into the segment, and it is there before anything else runs.
func (d *Driver) boot(ctx context.Context, m substrate.Machine, b substrate.Boot, s switches.Segment) (substrate.Boot, error) {
	b.File.Token = "" // it is computed when it is handed out, and stands nowhere
	control, err := d.config.Power(m)
	if err != nil {
		return b, err
	}
	now, err := d.config.Ledger.BootOn(ctx, m.ID)
	if err != nil && !errors.Is(err, substrate.ErrNoBoot) {
		return b, err
	}
	if err == nil && now.Subject == b.Subject && now.Number == b.Number && !now.Powered.IsZero() {
		return now, d.keepOn(ctx, control, m, now, s)
	}
	if err := d.config.Ledger.Begin(ctx, b); err != nil {
		return b, err
	}
	if err := d.switchOff(ctx, control, m, nil); err != nil && !errors.Is(err, errUnseen) {
		return b, err
	}
	if err := d.place(ctx, m, s); err != nil {
		return b, err
	}
	return b, d.switchOn(ctx, control, b)
}

func (d *Driver) place(ctx context.Context, m substrate.Machine, s switches.Segment) error {
	if d.config.Place == nil {
		return nil
	}
	return d.config.Place(ctx, m, s)
}

// keepOn switches on what should be on: not every machine wakes at the first call.
func (d *Driver) keepOn(ctx context.Context, control power.Driver, m substrate.Machine, b substrate.Boot,
	s switches.Segment) error {
	if b.Joined || time.Since(b.Powered) < d.config.Again {
		return nil
	}
	state, err := control.State(ctx)
	if err != nil {
		return fmt.Errorf("look at its power: %w", err)
	}
	if state == power.On {
		return nil
	}
	if err := d.place(ctx, m, s); err != nil {
		return err
	}
	return d.switchOn(ctx, control, b)
}

func (d *Driver) switchOn(ctx context.Context, control power.Driver, b substrate.Boot) error {
	if err := control.BootFromNetwork(ctx); err != nil && !errors.Is(err, power.ErrUnsupported) {
		return fmt.Errorf("make it boot from the network: %w", err)
	}
	if err := control.On(ctx); err != nil {
		return fmt.Errorf("switch it on: %w", err)
	}
	return d.config.Ledger.Powered(ctx, b)
}

// switchOff says "off", and returns nil when the machine was seen off, which also means that its memory lost what was in it.
// Until then it is substrate.ErrUnderway: call again, which looks and says it once more. Since when stands in the ledger. Where
// the power control cannot switch off, the machine's agent does, if it is asked to; ask is nil where it was refused already.
func (d *Driver) switchOff(ctx context.Context, control power.Driver, m substrate.Machine, ask func() error) error {
	state, err := control.State(ctx)
	if err != nil {
		return fmt.Errorf("look at its power: %w", err)
	}
	if state == power.On {
		if err := tellOff(ctx, control, ask); err != nil {
			return err
		}
		if state, err = control.State(ctx); err != nil {
			return fmt.Errorf("look at its power: %w", err)
		}
	}
	switch {
	case state == power.On && !m.OffSince.IsZero() && time.Since(m.OffSince) > offWithin:
		return errors.New("it was switched off and is still on")
	case state == power.On:
		if err := d.config.Ledger.WaitForOff(ctx, m.ID, true); err != nil {
			return err
		}
		return fmt.Errorf("%w: machine %s is switched off, and not yet seen off", substrate.ErrUnderway, m.Name)
	case !m.OffSince.IsZero():
		err = d.config.Ledger.WaitForOff(ctx, m.ID, false)
	}
	if state == power.Unknown {
		return errors.Join(err, errUnseen)
	}
	return err
}

// tellOff says "off" once.
func tellOff(ctx context.Context, control power.Driver, ask func() error) error {
	switch err := control.Off(ctx); {
	case errors.Is(err, power.ErrUnsupported) && ask != nil:
		return ask()
	case err != nil && !errors.Is(err, power.ErrUnsupported):
		return fmt.Errorf("switch it off: %w", err)
	}
	return nil
}

// errUnseen says that it cannot be known whether a machine is off. Before its first boot that is no obstacle.
var errUnseen = errors.New("nobody can tell whether it is off: its power control does not say, and it has no address yet")

// Observe looks at the machine of a node.
func (d *Driver) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	b, err := d.config.Ledger.BootOf(ctx, r.Node)
	if errors.Is(err, substrate.ErrNoBoot) {
		return substrate.Observation{}, nil
	}
	if err != nil {
		return substrate.Observation{}, fmt.Errorf("look at node %s: %w", r.Node, err)
	}
	seen := substrate.Observation{Present: true, Boot: b.Number,
		Limits: substrate.Limits{CPU: "the machine's", Memory: "the machine's"}}
	m, err := d.config.Ledger.Machine(ctx, b.Machine)
	if err != nil {
		return seen, fmt.Errorf("look at node %s: %w", r.Node, err)
	}
	control, err := d.config.Power(m)
	if err != nil {
		return seen, fmt.Errorf("look at node %s: machine %s: %w", r.Node, m.Name, err)
	}
	state, err := control.State(ctx)
	if err != nil {
		return seen, fmt.Errorf("look at node %s: the power of machine %s: %w", r.Node, m.Name, err)
	}
	seen.Running = state != power.Off
	if !seen.Running {
		seen.Detail = "machine " + m.Name + " is off"
	}
	return seen, nil
}

// Remove ends the node: its machine was seen off, and then its ports in the common segment, when it returns nil; before that it
// is substrate.ErrUnderway. What it left on disks is for the next inspection to erase. A machine on which the node's agent
// never came is given up even if its power cannot be told.
func (d *Driver) Remove(ctx context.Context, r substrate.Ref) error {
	b, err := d.config.Ledger.BootOf(ctx, r.Node)
	if errors.Is(err, substrate.ErrNoBoot) || err == nil && r.Boot > 0 && b.Number > r.Boot {
		return nil
	}
	upTo := r.Boot
	if upTo == 0 {
		upTo = math.MaxInt64
	}
	if err == nil {
		err = d.end(ctx, b, upTo)
	}
	return wrap.Errorf(err, "end node %s", r.Node)
}

// end switches a boot's machine off and forgets its subject's boots up to a number.
func (d *Driver) end(ctx context.Context, b substrate.Boot, upTo int64) error {
	m, err := d.config.Ledger.Machine(ctx, b.Machine)
	if err != nil {
		return err
	}
	control, err := d.config.Power(m)
	if err == nil {
		err = d.switchOff(ctx, control, m, func() error { return d.config.Ledger.End(ctx, b.Subject, b.Number) })
	}
	if err != nil && (b.Joined || errors.Is(err, substrate.ErrUnderway)) {
		return fmt.Errorf("machine %s: %w", m.Name, err)
	}
	// Nothing of the cluster's network may reach the machine's next tenant, nor the other way round. Until its ports were
	// seen elsewhere the boot stands in the ledger, and the node is there.
	if err := d.place(ctx, m, switches.Common); err != nil {
		return fmt.Errorf("machine %s: %w", m.Name, err)
	}
	// Without an agent nothing of the node ran: whatever the machine does, the next inspection finds out.
	return d.config.Ledger.Drop(ctx, b.Subject, upTo)
}

// List names the nodes that machines boot.
func (d *Driver) List(ctx context.Context) ([]substrate.Ref, error) {
	refs, err := d.config.Ledger.Nodes(ctx)
	return refs, wrap.Errorf(err, "list nodes on machines")
}
