package host

import (
	"context"
	"fmt"

	"muster/internal/core"
	"muster/internal/kinds/machine"
	"muster/internal/kit/wrap"
)

// StartMove takes a part of another host for a guest, beside the one that it has: g is the guest as it is to be there.
func StartMove(ctx context.Context, tx *core.Tx, g Guest) error {
	if err := takeRows(ctx, tx, g); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE machine SET to_host_id = $1, to_allocation = $2, moves_at = now_ms() WHERE id = $3`,
		g.Machine.Host, core.JSON(g.Allocation), g.ID)
	return wrap.Errorf(err, "note where guest %s moves", g.Name)
}

// EndMove makes a guest one of the host that it has moved to: all that it held of its old one is free.
func EndMove(ctx context.Context, tx *core.Tx, g Guest) error {
	for _, statement := range []string{
		`UPDATE machine SET host_id = $2, to_host_id = NULL, to_allocation = '', moves_at = now_ms() WHERE id = $1`,
		`UPDATE node SET host_id = $2, leaf = '' WHERE machine_id = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, g.ID, g.Machine.Host); err != nil {
			return fmt.Errorf("note that guest %s has moved: %w", g.Name, err)
		}
	}
	if err := SetAllocation(ctx, tx, g); err != nil {
		return err
	}
	node, err := nodeOn(ctx, tx, g.ID)
	if err != nil {
		return fmt.Errorf("note that guest %s has moved: %w", g.Name, err)
	}
	return arrived(ctx, tx, node)
}

// CallOffMove gives back what a guest was to have of the host that it does not move to.
func CallOffMove(ctx context.Context, tx *core.Tx, guest string) error {
	for _, statement := range []string{
		`DELETE FROM allocation WHERE guest_id = $1 AND host_id = (SELECT to_host_id FROM machine WHERE id = $1)`,
		`UPDATE machine SET to_host_id = NULL, to_allocation = '', moves_at = now_ms() WHERE id = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, guest); err != nil {
			return fmt.Errorf("call the move of guest %s off: %w", guest, err)
		}
	}
	node, err := nodeOn(ctx, tx, guest)
	if err != nil {
		return fmt.Errorf("call the move of guest %s off: %w", guest, err)
	}
	return dropMigration(ctx, tx, node)
}

// DrainMachine asks that a hypervisor leaves service and that its guests go elsewhere, and wakes their nodes.
func DrainMachine(ctx context.Context, tx *core.Tx, id string) error {
	if err := machine.Want(ctx, tx, id, machine.ForMaintenance); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE machine SET drains = 1 WHERE id = $1`, id); err != nil {
		return fmt.Errorf("drain machine %s: %w", id, err)
	}
	guests, err := machine.GuestsOn(ctx, tx, id)
	for _, g := range guests {
		if g.Holder != "" {
			tx.Wake(machine.Holders, g.Holder)
		}
	}
	return err
}
