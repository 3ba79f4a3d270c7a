package serve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"muster/internal/core"
	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/kit/private"
	"muster/internal/protocol"
)

// boots is the database as substrates of whole machines ask for it.
type boots struct{ db *core.Store }

func (l boots) Machine(ctx context.Context, name string) (substrate.Machine, error) {
	var found substrate.Machine
	err := l.db.View(ctx, func(tx *core.Tx) error {
		m, err := machine.Get(ctx, tx, name)
		if err != nil {
			return err
		}
		found.Machine = m.Machine
		if found.On, err = network.Get(ctx, tx, m.Network); err != nil {
			return fmt.Errorf("machine %s: %w", m.Name, err)
		}
		if found.OffSince, err = machine.OffSince(ctx, tx, m.ID); err != nil {
			return err
		}
		found.Address, err = addressOf(ctx, tx, m)
		return err
	})
	return found, err
}

// addressOf is the address that a machine has on its network; the zero Addr if it never had one.
func addressOf(ctx context.Context, tx *core.Tx, m machine.Machine) (netip.Addr, error) {
	for _, mac := range m.MACs {
		lease, err := network.LeaseOf(ctx, tx, m.Network, mac)
		if err == nil {
			return lease.Address, nil
		}
		if !errors.Is(err, core.ErrNotFound) {
			return netip.Addr{}, err
		}
	}
	return netip.Addr{}, nil
}

func (l boots) BootOn(ctx context.Context, machineID string) (substrate.Boot, error) {
	return l.boot(ctx, func(tx *core.Tx) (machine.Boot, error) { return machine.BootOn(ctx, tx, machineID) })
}

func (l boots) BootOf(ctx context.Context, subject string) (substrate.Boot, error) {
	return l.boot(ctx, func(tx *core.Tx) (machine.Boot, error) { return machine.BootOf(ctx, tx, subject) })
}

func (l boots) boot(ctx context.Context, find func(*core.Tx) (machine.Boot, error)) (substrate.Boot, error) {
	var boot machine.Boot
	err := l.db.View(ctx, func(tx *core.Tx) (err error) {
		boot, err = find(tx)
		return err
	})
	if errors.Is(err, core.ErrNotFound) {
		err = substrate.ErrNoBoot
	}
	return substrate.Boot{
		Machine: boot.MachineID, Subject: boot.Subject, Number: boot.Number, Image: boot.Image, File: boot.File, Disk: boot.Disk,
		Erase:   boot.Erase,
		Powered: boot.PoweredAt, Joined: boot.Step == protocol.StepAgent, Step: boot.Step, Detail: boot.Detail,
		Findings: boot.Findings, Key: boot.JoinedKey,
	}, err
}

func (l boots) Begin(ctx context.Context, b substrate.Boot) error {
	return l.db.Update(ctx, func(tx *core.Tx) error {
		begun, err := machine.BeginBoot(ctx, tx, machine.Boot{
			MachineID: b.Machine, Subject: b.Subject, Number: b.Number, Image: b.Image, File: b.File, Disk: b.Disk,
			Erase: b.Erase,
		})
		if err == nil && !begun {
			err = substrate.ErrStale
		}
		return err
	})
}

func (l boots) Powered(ctx context.Context, b substrate.Boot) error {
	return l.db.Update(ctx, func(tx *core.Tx) error { return machine.PowerBoot(ctx, tx, b.Subject, b.Number) })
}

func (l boots) WaitForOff(ctx context.Context, machineID string, waits bool) error {
	return l.db.Update(ctx, func(tx *core.Tx) error { return machine.WaitForOff(ctx, tx, machineID, waits) })
}

func (l boots) End(ctx context.Context, subject string, number int64) error {
	return l.db.Update(ctx, func(tx *core.Tx) error { return machine.EndBoot(ctx, tx, subject, number) })
}

func (l boots) Drop(ctx context.Context, subject string, number int64) error {
	return l.db.Update(ctx, func(tx *core.Tx) error { return machine.DropBoot(ctx, tx, subject, number) })
}

func (l boots) Nodes(ctx context.Context) ([]substrate.Ref, error) {
	var refs []substrate.Ref
	err := l.db.View(ctx, func(tx *core.Tx) error {
		boots, err := machine.Boots(ctx, tx)
		if err != nil {
			return err
		}
		for _, b := range boots {
			if b.Inspection() {
				continue
			}
			node, err := node.Get(ctx, tx, b.Subject)
			if err != nil {
				return err
			}
			refs = append(refs, substrate.Ref{Cluster: node.Cluster, Node: node.ID, Boot: b.Number})
		}
		return nil
	})
	return refs, err
}

// newPower makes drivers of power controls.
func newPower(d dir, all power.Registry) func(substrate.Machine) (power.Driver, error) {
	site := power.Site{Programs: private.Dir(d.commands()), Secrets: private.Dir(d.secrets())}
	return func(m substrate.Machine) (power.Driver, error) {
		return all.Open(site, power.Target{
			Machine: m.Name, Power: m.Power, MACs: m.MACs, Network: m.On, Address: m.Address, UEFI: m.Facts.System.UEFI,
		})
	}
}
