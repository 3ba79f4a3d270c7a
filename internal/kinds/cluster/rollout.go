package cluster

import (
	"context"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/kit/wrap"
	"muster/internal/spec"
)

// Rollout is what the nodes of a cluster are to boot, and how that goes.
type Rollout struct {
	Aim     int64     // the generation that last said what nodes boot
	Good    node.Root // what they booted when the cluster was last wholly ready; zero before that
	Stopped int64     // the Aim whose rollout has stopped by itself
	Why     string    // it has
}

const rolloutColumns = `aim, good, stopped, stopped_why`

func (r *Rollout) fields() []any { return []any{&r.Aim, core.JSON(&r.Good), &r.Stopped, &r.Why} }

// Root is what the cluster's nodes shall boot, by its file.
func (c Cluster) Root() node.Root {
	return node.Root{Name: c.Spec.Image, Image: c.Image, Disk: c.Spec.Boot == spec.BootDisk}
}

// Halted says that the rollout has stopped by itself: no further node is touched until the intent changes.
func (c Cluster) Halted() bool { return c.Rollout.Stopped > 0 && c.Rollout.Stopped == c.Rollout.Aim }

// Boots is what a node that boots now gets: while a rollout is stopped, what is known to work.
func (c Cluster) Boots() node.Root {
	if c.Halted() {
		return c.Rollout.Good
	}
	return c.Root()
}

// Behind says that the node is to reboot: what it runs is not what its cluster's file says.
func (c Cluster) Behind(n node.Node) bool {
	return n.Desired == core.Present && n.Boot > 0 && !n.Has(c.Root())
}

// SetRoot makes an image, beside what the newest generation of the file says, what nodes are to boot. A rollout that had
// stopped goes on with it.
func SetRoot(ctx context.Context, tx *core.Tx, cluster, image string) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET image = $1, aim = generation, `+core.Woken+` WHERE id = $2`, image, cluster)
	return wrap.Errorf(err, "roll out an image in cluster %s", cluster)
}

// SaveGood records that the whole cluster was ready with a root.
func SaveGood(ctx context.Context, tx *core.Tx, cluster string, r node.Root) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET good = $1 WHERE id = $2`, core.JSON(r), cluster)
	return wrap.Errorf(err, "record what cluster %s boots", cluster)
}

// StopRollout records that the rollout of an aim has failed, and wakes the cluster. It reports false where it was stopped
// before, where another aim has been set since, or where there is nothing good to go back to.
func StopRollout(ctx context.Context, tx *core.Tx, cluster string, aim int64, why string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE cluster SET stopped = $1, stopped_why = $2, `+core.Woken+`
		WHERE id = $3 AND aim = $1 AND stopped <> $1 AND good <> ''`, aim, why, cluster)
	return n == 1, wrap.Errorf(err, "stop the rollout of cluster %s", cluster)
}
