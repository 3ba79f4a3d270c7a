package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muster/internal/spec"
)

// Root is what a node boots.
type Root struct {
	Name  string `json:"name"`           // of the image
	Image string `json:"image"`          // its digest
	Disk  bool   `json:"disk,omitempty"` // on the machine's disk, where it is a whole machine
}

// Rollout is what the nodes of a cluster are to boot, and how that goes.
type Rollout struct {
	Aim     int64  // the generation that last said what nodes boot
	Good    Root   // what they booted when the cluster was last wholly ready; zero before that
	Stopped int64  // the Aim whose rollout has stopped by itself
	Why     string // it has
}

const rolloutColumns = `aim, good, stopped, stopped_why`

func (r *Rollout) fields(good *string) []any { return []any{&r.Aim, good, &r.Stopped, &r.Why} }

func (r *Rollout) read(good string) error {
	if good == "" {
		return nil
	}
	return json.Unmarshal([]byte(good), &r.Good)
}

// Root is what the cluster's nodes shall boot, by its file.
func (c Cluster) Root() Root {
	return Root{Name: c.Spec.Image, Image: c.Image, Disk: c.Spec.Boot == spec.BootDisk}
}

// Halted says that the rollout has stopped by itself: no further node is touched until the intent changes.
func (c Cluster) Halted() bool { return c.Rollout.Stopped > 0 && c.Rollout.Stopped == c.Rollout.Aim }

// Boots is what a node that boots now gets: while a rollout is stopped, what is known to work.
func (c Cluster) Boots() Root {
	if c.Halted() {
		return c.Rollout.Good
	}
	return c.Root()
}

// Has says that the node's boot is of this root. Only a whole machine has a disk to boot from.
func (n Node) Has(r Root) bool { return n.Image == r.Image && (n.Disk == r.Disk || !n.Whole) }

// Behind says that the node is to boot anew: what it runs is not what its cluster's file says.
func (c Cluster) Behind(n Node) bool { return n.Desired == Present && n.Boot > 0 && !n.Has(c.Root()) }

// SetRoot makes an image, beside what the newest generation of the file says, what nodes are to boot. A rollout that had
// stopped goes on with it.
func (tx *Tx) SetRoot(ctx context.Context, cluster, image string) error {
	if _, err := tx.exec(ctx, `UPDATE cluster SET image = $1, aim = generation, `+woken+` WHERE id = $2`, image, cluster); err != nil {
		return fmt.Errorf("roll out an image in cluster %s: %w", cluster, err)
	}
	return nil
}

// SaveGood records that the whole cluster was ready with a root.
func (tx *Tx) SaveGood(ctx context.Context, cluster string, r Root) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := tx.exec(ctx, `UPDATE cluster SET good = $1 WHERE id = $2`, string(text), cluster); err != nil {
		return fmt.Errorf("record what cluster %s boots: %w", cluster, err)
	}
	return nil
}

// StopRollout records that the rollout of an aim has failed, and wakes the cluster. It reports false where it was stopped
// before, where another aim has been set since, or where there is nothing good to go back to.
func (tx *Tx) StopRollout(ctx context.Context, cluster string, aim int64, why string) (bool, error) {
	n, err := tx.exec(ctx, `UPDATE cluster SET stopped = $1, stopped_why = $2, `+woken+`
		WHERE id = $3 AND aim = $1 AND stopped <> $1 AND good <> ''`, aim, why, cluster)
	if err != nil {
		return false, fmt.Errorf("stop the rollout of cluster %s: %w", cluster, err)
	}
	return n == 1, nil
}

// RenewNode asks that a node boots anew on its own machine, drained for at most drainFor (0: without limit), and wakes it.
func (tx *Tx) RenewNode(ctx context.Context, id string, drainFor time.Duration) error {
	_, err := tx.exec(ctx, `UPDATE node SET renew = 1, `+woken+`,
			drain_until = CASE WHEN CAST($1 AS BIGINT) > 0 THEN now_ms() + CAST($1 AS BIGINT) ELSE 0 END
		WHERE id = $2 AND desired = 'present' AND renew = 0`, drainFor.Milliseconds(), id)
	if err != nil {
		return fmt.Errorf("renew node %s: %w", id, err)
	}
	return nil
}

// SpareNode takes RenewNode back while the node's old boot still runs, and wakes it. A head that has begun to stop its
// daemons boots anew in any case.
func (tx *Tx) SpareNode(ctx context.Context, id string) error {
	_, err := tx.exec(ctx, `UPDATE node SET renew = 0, drain_until = 0, `+woken+`
		WHERE id = $1 AND desired = 'present' AND renew = 1 AND (phase = 'ready' OR phase = 'draining' AND role = 'compute')`, id)
	if err != nil {
		return fmt.Errorf("spare node %s: %w", id, err)
	}
	return nil
}
