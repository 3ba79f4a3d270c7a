package store

import (
	"context"
	"fmt"
)

// PauseKeepingMemory is WantClusterPaused for a cluster whose nodes are to sleep, with all that runs on them.
func (tx *Tx) PauseKeepingMemory(ctx context.Context, id string) error {
	if err := tx.WantClusterPaused(ctx, id); err != nil {
		return err
	}
	return tx.KeepMemory(ctx, id, true)
}

// KeepMemory says whether a cluster that pauses keeps what its nodes have in memory.
func (tx *Tx) KeepMemory(ctx context.Context, id string, keep bool) error {
	if _, err := tx.exec(ctx, `UPDATE cluster SET keeps_memory = $1, `+woken+` WHERE id = $2 AND desired = $3`, flag(keep), id, string(ToPause)); err != nil {
		return fmt.Errorf("say what cluster %s keeps: %w", id, err)
	}
	return nil
}

// Asleep says that the node sleeps: nothing of it runs, and its memory is on its host's disk.
func (n Node) Asleep() bool { return n.Sleeps && n.Phase == Pending }

// PutToSleep asks that a node sleeps, and wakes its row.
func (tx *Tx) PutToSleep(ctx context.Context, id string) error {
	if _, err := tx.exec(ctx, `UPDATE node SET sleeps = 1, `+woken+` WHERE id = $1 AND desired = 'present'`, id); err != nil {
		return fmt.Errorf("put node %s to sleep: %w", id, err)
	}
	return nil
}

// FellAsleep gives back what a node's guest had of its host, and forgets what its agent said: when it says something again, it
// is awake. It is part of the transaction that makes the node pending.
func (tx *Tx) FellAsleep(ctx context.Context, n Node) error {
	if _, err := tx.exec(ctx, `DELETE FROM observed WHERE node_id = $1`, n.ID); err != nil {
		return fmt.Errorf("forget what node %s said: %w", n.ID, err)
	}
	tx.Wake(MachineKind, n.HostID)
	return tx.releaseAllocation(ctx, n.MachineID)
}

// WakeSleeper has a node that sleeps look again, which it does not by itself: its guest has a part of its host again.
func (tx *Tx) WakeSleeper(ctx context.Context, id string) error {
	if _, err := tx.exec(ctx, `UPDATE node SET `+woken+` WHERE id = $1`, id); err != nil {
		return fmt.Errorf("wake node %s: %w", id, err)
	}
	return nil
}

// SleepsOn says whether a node sleeps on a hypervisor, or falls asleep there or wakes: of none of these anything is heard.
func (tx *Tx) SleepsOn(ctx context.Context, host string) (sleeps bool, err error) {
	err = tx.row(ctx, `SELECT EXISTS (SELECT 1 FROM node WHERE host_id = $1 AND sleeps = 1 AND phase IN ('pending', 'booting', 'ready'))`, host).Scan(&sleeps)
	if err != nil {
		return false, fmt.Errorf("look whether nodes sleep on hypervisor %s: %w", host, err)
	}
	return sleeps, nil
}

// WokeUp notes that a node that slept runs on.
func (tx *Tx) WokeUp(ctx context.Context, id string) error {
	if _, err := tx.exec(ctx, `UPDATE node SET sleeps = 0 WHERE id = $1`, id); err != nil {
		return fmt.Errorf("note that node %s is awake: %w", id, err)
	}
	return nil
}
