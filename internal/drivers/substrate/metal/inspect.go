package metal

import (
	"context"
	"errors"
	"fmt"
	"math"

	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	switches "muster/internal/drivers/switch"
	"muster/internal/inventory"
	"muster/internal/protocol"
)

// Inspection is one boot of a machine for its own sake.
type Inspection struct {
	Machine inventory.Machine
	Number  int64 // of the machine's boots
	Image   string
	Erase   bool
	File    protocol.BootFile
}

// Progress is how far an inspection is.
type Progress struct {
	Findings *protocol.Findings // of an inspection that is over; the machine is off
	Accounts []string           // of one that is over: who may log in at its BMC, as power.Accountant tells; nil: nothing tells
	Unread   string             // why they could not be read though there are such; "": they could, or nothing tells
	Key      string             // fingerprint of the key that they were delivered with
	Doing    string             // else what it does or waits for
	Stuck    string             // why it cannot go on by itself; "" if it can
}

// Inspect takes an inspection as far as it goes without waiting; call again until it is over.
func (d *Driver) Inspect(ctx context.Context, i Inspection) (Progress, error) {
	m, err := d.config.Ledger.Machine(ctx, i.Machine.Name)
	if err != nil {
		return Progress{}, fmt.Errorf("inspect machine %s: %w", i.Machine.Name, err)
	}
	i.File.Duty = protocol.Inspect
	b, err := d.boot(ctx, m, substrate.Boot{Machine: m.ID, Subject: m.ID, Number: i.Number, Image: i.Image, Erase: i.Erase,
		File: i.File}, switches.Common)
	if err != nil {
		return Progress{}, fmt.Errorf("inspect machine %s: %w", i.Machine.Name, err)
	}
	p := Progress{Doing: describe(b)}
	if b.Step == protocol.StepProblem {
		p.Stuck = b.Detail
	}
	if b.Findings == nil || !b.Findings.Done {
		return p, nil
	}
	if err := d.end(ctx, b, b.Number); err != nil {
		return p, fmt.Errorf("inspect machine %s: %w", i.Machine.Name, err)
	}
	p = Progress{Findings: b.Findings, Key: b.Key}
	p.Accounts, p.Unread = d.accounts(ctx, m)
	return p, nil
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
func (d *Driver) Host(ctx context.Context, i Inspection) (Progress, error) {
	m, err := d.config.Ledger.Machine(ctx, i.Machine.Name)
	if err != nil {
		return Progress{}, fmt.Errorf("make machine %s a hypervisor: %w", i.Machine.Name, err)
	}
	i.File.Duty = protocol.Host
	b, err := d.boot(ctx, m, substrate.Boot{Machine: m.ID, Subject: m.ID, Number: i.Number, Image: i.Image, File: i.File},
		switches.Hosts)
	if err != nil {
		return Progress{}, fmt.Errorf("make machine %s a hypervisor: %w", i.Machine.Name, err)
	}
	p := Progress{Doing: describe(b)}
	if b.Step == protocol.StepProblem {
		p.Stuck = b.Detail
	}
	return p, nil
}

// EndHost switches off a machine that was a hypervisor; it was seen off when this returns nil, and before that it is
// substrate.ErrUnderway.
func (d *Driver) EndHost(ctx context.Context, machine inventory.Machine) error {
	b, err := d.config.Ledger.BootOn(ctx, machine.ID)
	if errors.Is(err, substrate.ErrNoBoot) {
		return nil
	}
	if err == nil {
		err = d.end(ctx, b, math.MaxInt64)
	}
	if err != nil {
		return fmt.Errorf("switch off hypervisor %s: %w", machine.Name, err)
	}
	return nil
}

// describe says what a boot is at, for a person.
func describe(b substrate.Boot) string {
	switch {
	case b.Findings != nil && b.Findings.Doing != "":
		return b.Findings.Doing
	case b.Detail != "":
		return b.Detail
	}
	return "is switched on"
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
