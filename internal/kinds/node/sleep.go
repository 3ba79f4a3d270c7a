package node

import (
	"context"
	"fmt"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kit/wrap"
)

// Asleep says that the node sleeps: nothing of it runs, and its memory is on its host's disk.
func (n Node) Asleep() bool { return n.Sleeps && n.Phase == core.Pending }

// PutToSleep asks that a node sleeps, and wakes its row.
func PutToSleep(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE node SET sleeps = 1, `+core.Woken+` WHERE id = $1 AND desired = 'present'`, id)
	return wrap.Errorf(err, "suspend node %s", id)
}

// FellAsleep gives back what a node's guest had of its host, and forgets what its agent said: when it says something again, it
// is awake. It is part of the transaction that makes the node pending.
func FellAsleep(ctx context.Context, tx *core.Tx, n Node) error {
	if _, err := tx.Exec(ctx, `DELETE FROM observed WHERE node_id = $1`, n.ID); err != nil {
		return fmt.Errorf("forget what node %s said: %w", n.ID, err)
	}
	tx.Wake(machine.Kind, n.HostID)
	return host.ReleaseAllocation(ctx, tx, n.MachineID)
}

// WakeSleeper has a node that sleeps look again, which it does not by itself: its guest has a part of its host again.
func WakeSleeper(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE node SET `+core.Woken+` WHERE id = $1`, id)
	return wrap.Errorf(err, "resume node %s", id)
}

// SleepsOn says whether a node is suspended on a hypervisor, or is being suspended or resumed there: none of these reports.
func SleepsOn(ctx context.Context, tx *core.Tx, host string) (sleeps bool, err error) {
	err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM node WHERE host_id = $1 AND sleeps = 1 AND phase IN ('pending',
		'booting', 'ready'))`, host).Scan(&sleeps)
	return sleeps, wrap.Errorf(err, "look whether nodes are suspended on hypervisor %s", host)
}

// WokeUp notes that a node that slept runs on.
func WokeUp(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE node SET sleeps = 0 WHERE id = $1`, id)
	return wrap.Errorf(err, "note that node %s is awake", id)
}
