package cluster

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// Forget drops the rows of clusters that were deleted longer ago than age, the oldest first, so many at most; a cluster stays
// while a node's row, a snapshot or a partition's key of it is left. What they used stays with the meter.
func Forget(ctx context.Context, tx *core.Tx, age time.Duration) error {
	err := tx.Forget(ctx, []string{
		`DELETE FROM web_login WHERE cluster_id = $1`,
		`DELETE FROM node_slot WHERE cluster_id = $1`,
		`DELETE FROM cluster WHERE id = $1`,
	}, `SELECT id FROM cluster WHERE phase = 'deleted' AND phase_at < now_ms() - $1
		AND NOT EXISTS (SELECT 1 FROM node n WHERE n.cluster_id = cluster.id)
		AND NOT EXISTS (SELECT 1 FROM snapshot s WHERE s.cluster_id = cluster.id)
		AND NOT EXISTS (SELECT 1 FROM partition p WHERE p.cluster_id = cluster.id) ORDER BY phase_at LIMIT 500`, age.Milliseconds())
	return wrap.Errorf(err, "forget deleted clusters")
}
