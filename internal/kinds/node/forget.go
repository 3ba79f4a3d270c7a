package node

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
)

// forgetAtOnce bounds how long others wait for a transaction that forgets rows.
const forgetAtOnce = 2000

// Forget drops the rows of nodes that have been gone for longer than age, the oldest first, so many at most. What they used stays
// with the meter.
func Forget(ctx context.Context, tx *core.Tx, age time.Duration) error {
	scan := func(r core.Scanner) (id string, err error) { return id, r.Scan(&id) }
	gone, err := core.List(ctx, tx, scan, `SELECT id FROM node WHERE phase = 'gone' AND phase_at < now_ms() - $1
		AND NOT EXISTS (SELECT 1 FROM partition_member m WHERE m.node_id = node.id)
		AND NOT EXISTS (SELECT 1 FROM hosted h WHERE h.node_id = node.id)
		AND NOT EXISTS (SELECT 1 FROM away a WHERE a.node_id = node.id) ORDER BY phase_at LIMIT $2`,
		age.Milliseconds(), forgetAtOnce)
	for _, id := range gone {
		for _, statement := range []string{`DELETE FROM observed WHERE node_id = $1`, `DELETE FROM node WHERE id = $1`} {
			if err == nil {
				_, err = tx.Exec(ctx, statement, id)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("forget nodes that are gone: %w", err)
	}
	return nil
}
