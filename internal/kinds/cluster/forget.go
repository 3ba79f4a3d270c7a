package cluster

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
)

// Forget drops the rows of clusters that were deleted longer ago than age, the oldest first, so many at most; those stay of which
// a node's row is left, a snapshot, or a partition's key. What they used stays with the meter.
func Forget(ctx context.Context, tx *core.Tx, age time.Duration) error {
	const atOnce = 500 // it bounds how long others wait
	scan := func(r core.Scanner) (id string, err error) { return id, r.Scan(&id) }
	deleted, err := core.List(ctx, tx, scan, `SELECT id FROM cluster WHERE phase = 'deleted' AND phase_at < now_ms() - $1
		AND NOT EXISTS (SELECT 1 FROM node n WHERE n.cluster_id = cluster.id)
		AND NOT EXISTS (SELECT 1 FROM snapshot s WHERE s.cluster_id = cluster.id)
		AND NOT EXISTS (SELECT 1 FROM partition p WHERE p.cluster_id = cluster.id) ORDER BY phase_at LIMIT $2`,
		age.Milliseconds(), atOnce)
	for _, id := range deleted {
		for _, statement := range []string{
			`DELETE FROM web_login WHERE cluster_id = $1`,
			`DELETE FROM seat WHERE cluster_id = $1`,
			`DELETE FROM cluster WHERE id = $1`,
		} {
			if err == nil {
				_, err = tx.Exec(ctx, statement, id)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("forget deleted clusters: %w", err)
	}
	return nil
}
