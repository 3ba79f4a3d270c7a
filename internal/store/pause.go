package store

import (
	"context"
	"fmt"
	"time"
)

// UntilJobsEnd is the PauseWait of a pause that ends no job.
const UntilJobsEnd = time.Duration(-1)

// PatientlyPaused is WantClusterPaused that lets jobs run on for a while before they are queued again; UntilJobsEnd for
// as long as they take. For a cluster that pauses already it changes how long that is, and memory that it keeps it gives up.
func (tx *Tx) PatientlyPaused(ctx context.Context, id string, wait time.Duration) error {
	if err := tx.WantClusterPaused(ctx, id); err != nil {
		return err
	}
	ms := wait.Milliseconds()
	if wait < 0 {
		ms = -1
	}
	if _, err := tx.exec(ctx, `UPDATE cluster SET pause_wait = $1, keeps_memory = 0, `+woken+` WHERE id = $2 AND desired = $3`, ms, id, string(ToPause)); err != nil {
		return fmt.Errorf("say how cluster %s pauses: %w", id, err)
	}
	if wait < 0 {
		return nil
	}
	_, err := tx.LimitDrains(ctx, id, max(wait, AtOnce))
	return err
}

// AtOnce is the shortest drain limit; 0 stands for none.
const AtOnce = time.Millisecond

// SetHeld records how much disk a paused cluster takes.
func (tx *Tx) SetHeld(ctx context.Context, id string, bytes int64) error {
	if _, err := tx.exec(ctx, `UPDATE cluster SET held = $1 WHERE id = $2`, bytes, id); err != nil {
		return fmt.Errorf("record what cluster %s holds: %w", id, err)
	}
	return nil
}
