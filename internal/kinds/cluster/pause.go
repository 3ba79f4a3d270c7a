package cluster

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/kit/wrap"
)

// UntilJobsEnd is the PauseWait of a pause that ends no job.
const UntilJobsEnd = time.Duration(-1)

// PausePatiently is WantPaused that lets jobs run on for a while before they are queued again; UntilJobsEnd for
// as long as they take. For a cluster that pauses already it changes how long that is, and memory that it keeps it gives up.
func PausePatiently(ctx context.Context, tx *core.Tx, id string, wait time.Duration) error {
	if err := WantPaused(ctx, tx, id); err != nil {
		return err
	}
	ms := wait.Milliseconds()
	if wait < 0 {
		ms = -1
	}
	if _, err := tx.Exec(ctx, `UPDATE cluster SET pause_wait = $1, keeps_memory = 0, `+core.Woken+
		` WHERE id = $2 AND desired = $3`, ms, id, string(ToPause)); err != nil {
		return fmt.Errorf("say how cluster %s pauses: %w", id, err)
	}
	if wait < 0 {
		return nil
	}
	_, err := node.LimitDrains(ctx, tx, id, max(wait, AtOnce))
	return err
}

// AtOnce is the shortest drain limit; 0 stands for none.
const AtOnce = time.Millisecond

// SetHeld records how much disk a paused cluster takes.
func SetHeld(ctx context.Context, tx *core.Tx, id string, bytes int64) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET held = $1 WHERE id = $2`, bytes, id)
	return wrap.Errorf(err, "record what cluster %s holds", id)
}

// PauseKeepingMemory is WantPaused for a cluster whose nodes are to sleep, with all that runs on them.
func PauseKeepingMemory(ctx context.Context, tx *core.Tx, id string) error {
	if err := WantPaused(ctx, tx, id); err != nil {
		return err
	}
	return KeepMemory(ctx, tx, id, true)
}

// KeepMemory says whether a cluster that pauses keeps what its nodes have in memory.
func KeepMemory(ctx context.Context, tx *core.Tx, id string, keep bool) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET keeps_memory = $1, `+core.Woken+` WHERE id = $2 AND desired = $3`,
		core.Flag(keep), id, string(ToPause))
	return wrap.Errorf(err, "say what cluster %s keeps", id)
}
