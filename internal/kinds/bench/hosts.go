package bench

import (
	"context"
	"fmt"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// allHosts are those of nodes, each with what it shares with others: its machine, if it is a whole one; the host of a guest; else
// the controller's own, which has no name.
const allHosts = `SELECT CASE WHEN COALESCE(m.network, '') <> '' AND COALESCE(n.host_id, '') = '' THEN n.machine_id
	WHEN COALESCE(h.network, '') <> '' THEN n.host_id ELSE '' END AS host, n.cluster_id, n.name
	FROM node n LEFT JOIN machine m ON m.id = n.machine_id LEFT JOIN machine h ON h.id = n.host_id
	WHERE n.phase <> 'gone'`

// hosts are those of a cluster's nodes.
const hosts = `SELECT DISTINCT host FROM (` + allHosts + `) AS every WHERE cluster_id = `

// BesideKey is what a look calls the number of other nodes on a node's host.
const BesideKey = "other-nodes-on-host"

// Beside counts, for each node of a cluster by its name, the other nodes on its host, whosever they are.
func Beside(ctx context.Context, tx *core.Tx, cluster string) (map[string]int, error) {
	count, err := core.Pairs[string, int](ctx, tx, `WITH every AS (`+allHosts+`)
		SELECT e.name, there.nodes - 1 FROM every e
		JOIN (SELECT host, COUNT(*) AS nodes FROM every GROUP BY host) AS there ON there.host = e.host
		WHERE e.cluster_id = $1`, cluster)
	return count, wrap.Errorf(err, "nodes beside those of cluster %s", cluster)
}

// Crowded says that another run than the peer, which is between two rounds, has hosts in common with a run.
func Crowded(ctx context.Context, tx *core.Tx, r Run) (is bool, err error) {
	err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM benchmark b WHERE b.id NOT IN ($1, $3) AND b.phase = 'running' AND b.task = ''
		AND EXISTS (SELECT 1 FROM (`+hosts+`b.cluster_id) AS theirs WHERE host IN (`+hosts+`$2)))`, r.ID, r.ClusterID, r.Peer).
		Scan(&is)
	return is, wrap.Errorf(err, "runs that wait beside run %s", r.ID)
}

// Disturbs says that a round of another run is under way on a host of a run's nodes: they would measure each other.
func Disturbs(ctx context.Context, tx *core.Tx, r Run) (is bool, err error) {
	err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM benchmark_host WHERE benchmark_id <> $1 AND host IN (`+hosts+`$2))`, r.ID,
		r.ClusterID).Scan(&is)
	return is, wrap.Errorf(err, "runs beside run %s", r.ID)
}

// Begin notes the task of the round that begins, and that it has its hosts for itself until it is saved. False: another run was
// quicker there, and nothing is noted.
func Begin(ctx context.Context, tx *core.Tx, r Run, task string) (begun bool, err error) {
	if err := Leave(ctx, tx, r); err != nil {
		return false, err
	}
	var wanted, got int64
	err = tx.Row(ctx, `SELECT COUNT(*) FROM (`+hosts+`$1) AS wanted`, r.ClusterID).Scan(&wanted)
	if err == nil {
		got, err = tx.Exec(ctx, `INSERT INTO benchmark_host (host, benchmark_id) SELECT host, $1 FROM (`+hosts+`$2) AS wanted
			WHERE 1 = 1 ON CONFLICT (host) DO NOTHING`, r.ID, r.ClusterID)
	}
	if err == nil && got < wanted {
		return false, Leave(ctx, tx, r)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE benchmark SET task = $2 WHERE id = $1`, r.ID, task)
	}
	if err != nil {
		return false, fmt.Errorf("begin a round of run %s: %w", r.ID, err)
	}
	return true, nil
}

// Leave lets others measure on a run's hosts. A second call does nothing.
func Leave(ctx context.Context, tx *core.Tx, r Run) error {
	_, err := tx.Exec(ctx, `DELETE FROM benchmark_host WHERE benchmark_id = $1`, r.ID)
	return wrap.Errorf(err, "leave the hosts of run %s", r.ID)
}
