package machinelife

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// Boots is the database as substrates of whole machines ask for it. It is substrate.Boots.
type Boots struct{ DB *core.Store }

func (d Boots) Machine(ctx context.Context, name string) (substrate.Machine, error) {
	var found substrate.Machine
	err := d.DB.View(ctx, func(tx *core.Tx) error {
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

func (d Boots) BootOn(ctx context.Context, machineID string) (substrate.Boot, error) {
	return d.boot(ctx, func(tx *core.Tx) (machine.Boot, error) { return machine.BootOn(ctx, tx, machineID) })
}

func (d Boots) BootOf(ctx context.Context, subject string) (substrate.Boot, error) {
	return d.boot(ctx, func(tx *core.Tx) (machine.Boot, error) { return machine.BootOf(ctx, tx, subject) })
}

func (d Boots) boot(ctx context.Context, find func(*core.Tx) (machine.Boot, error)) (substrate.Boot, error) {
	boot, err := core.Look(ctx, d.DB, find)
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

func (d Boots) Begin(ctx context.Context, b substrate.Boot) error {
	return d.DB.Update(ctx, func(tx *core.Tx) error {
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

func (d Boots) Powered(ctx context.Context, b substrate.Boot) error {
	return d.DB.Update(ctx, func(tx *core.Tx) error { return machine.PowerBoot(ctx, tx, b.Subject, b.Number) })
}

func (d Boots) WaitForOff(ctx context.Context, machineID string, waits bool) error {
	return d.DB.Update(ctx, func(tx *core.Tx) error { return machine.WaitForOff(ctx, tx, machineID, waits) })
}

func (d Boots) End(ctx context.Context, subject string, number int64) error {
	return d.DB.Update(ctx, func(tx *core.Tx) error { return machine.EndBoot(ctx, tx, subject, number) })
}

func (d Boots) Drop(ctx context.Context, subject string, number int64) error {
	return d.DB.Update(ctx, func(tx *core.Tx) error { return machine.DropBoot(ctx, tx, subject, number) })
}

func (d Boots) Nodes(ctx context.Context) ([]substrate.Ref, error) {
	var refs []substrate.Ref
	err := d.DB.View(ctx, func(tx *core.Tx) error {
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

// Notices are what substrates say, in the log of events and in that of the controller. They are substrate.Notices.
type Notices struct {
	DB  *core.Store
	Log *slog.Logger
}

func (n Notices) Machine(ctx context.Context, name, text string) {
	err := n.DB.Update(ctx, func(tx *core.Tx) error {
		tx.Log(core.Event{Type: "machine.warning", Machine: name, Text: text})
		return nil
	})
	if err != nil && ctx.Err() == nil {
		n.Log.Error("an alarm could not be written down", "machine", name, "alarm", text, "error", err)
	}
}

func (n Notices) Inspect(ctx context.Context, name string) error {
	return n.DB.Update(ctx, func(tx *core.Tx) error {
		m, err := machine.Get(ctx, tx, name)
		if errors.Is(err, core.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return machine.AskInspection(ctx, tx, m.ID)
	})
}
