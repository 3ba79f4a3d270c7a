package metal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	switches "muster/internal/drivers/switch"
	"muster/internal/inventory"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Inspect boots the inspector image on a machine.
func (d *Driver) Inspect(ctx context.Context, in substrate.Inspection) (seen substrate.Inspected, err error) {
	m, b, err := d.own(ctx, in, inventory.InspectorImage, protocol.Inspect)
	if err != nil {
		return seen, err
	}
	if b, err = d.boot(ctx, m, b, switches.Common); err != nil {
		return seen, fmt.Errorf("inspect machine %s: %w", in.Machine.Name, err)
	}
	seen.Doing, seen.Stuck = describe(b)
	if b.Findings == nil || !b.Findings.Done {
		return seen, nil
	}
	if err := d.end(ctx, b, b.Number); err != nil {
		return seen, fmt.Errorf("inspect machine %s: %w", in.Machine.Name, err)
	}
	seen = substrate.Inspected{Done: true, Checks: b.Findings.Checks, Erased: b.Findings.Erased, Key: b.Key}
	if err := json.Unmarshal(b.Findings.Facts, &seen.Facts); err != nil {
		return substrate.Inspected{Stuck: fmt.Sprintf("sent facts that cannot be read: %v", err)}, nil
	}
	seen.Facts.BMC, seen.Unread = d.accounts(ctx, m) // not what the machine says of itself
	return seen, nil
}

// own is a boot of an image of the site's own, and its machine.
func (d *Driver) own(ctx context.Context, in substrate.Inspection, image string,
	duty protocol.Duty) (m substrate.Machine, b substrate.Boot, err error) {
	digest, err := d.config.Images.Named(image)
	if err != nil {
		return m, b, fmt.Errorf("boot image %s on machine %s: %w; `muster images build %[1]s` makes it", image,
			in.Machine.Name, err)
	}
	if m, err = d.config.Ledger.Machine(ctx, in.Machine.Name); err != nil {
		return m, b, fmt.Errorf("boot image %s on machine %s: %w", image, in.Machine.Name, err)
	}
	return m, substrate.Boot{
		Machine: m.ID, Subject: m.ID, Number: in.Number, Image: digest, Erase: in.Erase,
		File: protocol.BootFile{
			Node: m.ID, Name: m.Name, Boot: in.Number, Duty: duty, Authority: d.config.Keys.AgentsPEM(),
			Endpoints: []string{protocol.Endpoint(m.On.Address.Addr())},
		},
	}, nil
}

// accounts lists who may log in at a machine's BMC, after its last tenant could change that.
func (d *Driver) accounts(ctx context.Context, m substrate.Machine) (accounts []string, unread string) {
	control, err := d.config.Power(m)
	if err != nil {
		return nil, err.Error()
	}
	accountant, ok := control.(power.Accountant)
	if !ok {
		return nil, ""
	}
	accounts, err = accountant.Accounts(ctx)
	switch {
	case errors.Is(err, power.ErrUnsupported):
		return nil, ""
	case err != nil:
		return nil, err.Error()
	}
	return accounts, ""
}

// Host takes a machine's boot as a hypervisor as far as it goes without waiting; call again until its agent has come. That
// the machine holds guests is not this driver's business.
func (d *Driver) Host(ctx context.Context, machine inventory.Machine, number int64) (doing, stuck string, err error) {
	m, b, err := d.own(ctx, substrate.Inspection{Machine: machine, Number: number}, inventory.HypervisorImage, protocol.Host)
	if err != nil {
		return "", "", err
	}
	if b, err = d.boot(ctx, m, b, switches.Hosts); err != nil {
		return "", "", fmt.Errorf("make machine %s a hypervisor: %w", machine.Name, err)
	}
	doing, stuck = describe(b)
	return doing, stuck, nil
}

// End switches off a machine that was a hypervisor; it was seen off when this returns nil, and before that it is
// substrate.ErrUnderway.
func (d *Driver) End(ctx context.Context, machine inventory.Machine) error {
	b, err := d.config.Ledger.BootOn(ctx, machine.ID)
	if errors.Is(err, substrate.ErrNoBoot) {
		return nil
	}
	if err == nil {
		err = d.end(ctx, b, math.MaxInt64)
	}
	return wrap.Errorf(err, "switch off hypervisor %s", machine.Name)
}

// describe says what a boot is at, for a person, and why it cannot go on by itself.
func describe(b substrate.Boot) (doing, stuck string) {
	if b.Step == protocol.StepProblem {
		stuck = b.Detail
	}
	if b.Findings != nil {
		doing = b.Findings.Doing
	}
	return cmp.Or(doing, b.Detail, "is switched on"), stuck
}

// EnsureOff makes an unused machine be off; it is substrate.ErrUnderway until the machine was seen so. It says what it found if
// the machine was on, with the first of these answers.
func (d *Driver) EnsureOff(ctx context.Context, machine inventory.Machine) (found string, err error) {
	m, err := d.config.Ledger.Machine(ctx, machine.Name)
	if err != nil {
		return "", fmt.Errorf("look at machine %s: %w", machine.Name, err)
	}
	control, err := d.config.Power(m)
	if err != nil {
		return "", fmt.Errorf("look at machine %s: %w", machine.Name, err)
	}
	state, err := control.State(ctx)
	if err != nil {
		return "", fmt.Errorf("look at the power of machine %s: %w", machine.Name, err)
	}
	now, err := d.config.Ledger.BootOn(ctx, m.ID)
	switch {
	case err == nil && now.Subject != m.ID:
		return "", nil // a node has begun in this very moment
	case err != nil && !errors.Is(err, substrate.ErrNoBoot):
		return "", fmt.Errorf("look at machine %s: %w", machine.Name, err)
	case state == power.On:
		err := d.switchOff(ctx, control, m, nil)
		if m.OffSince.IsZero() && (err == nil || errors.Is(err, substrate.ErrUnderway)) {
			found = "was on and nobody used it; is switched off"
		}
		if err != nil {
			return found, fmt.Errorf("machine %s is on and nobody uses it: %w", machine.Name, err)
		}
	case !m.OffSince.IsZero():
		if err := d.config.Ledger.WaitForOff(ctx, m.ID, false); err != nil {
			return "", err
		}
	}
	return found, d.config.Ledger.Drop(ctx, m.ID, math.MaxInt64)
}
