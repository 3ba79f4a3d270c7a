package node

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// Forget drops the rows of nodes that have been gone for longer than age, the oldest first, so many at most. What they used stays
// with the meter.
func Forget(ctx context.Context, tx *core.Tx, age time.Duration) error {
	err := tx.Forget(ctx, []string{`DELETE FROM observed WHERE node_id = $1`, `DELETE FROM node WHERE id = $1`},
		`SELECT id FROM node WHERE phase = 'gone' AND phase_at < now_ms() - $1
		AND NOT EXISTS (SELECT 1 FROM partition_member m WHERE m.node_id = node.id)
		AND NOT EXISTS (SELECT 1 FROM hosted h WHERE h.node_id = node.id)
		AND NOT EXISTS (SELECT 1 FROM guest_migration a WHERE a.node_id = node.id) ORDER BY phase_at LIMIT 2000`, age.Milliseconds())
	return wrap.Errorf(err, "forget nodes that are gone")
}
