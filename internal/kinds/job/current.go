package job

import (
	"context"
	"errors"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Told are the jobs of a cluster that had not ended when its head told of them.
type Told struct {
	protocol.CurrentJobs
	Cluster   string
	ClusterID string
	Project   string
}

const toldFrom = `SELECT c.id, c.name, c.project, t.current
	FROM cluster_jobs t JOIN cluster c ON c.id = t.cluster_id`

func scanTold(r core.Scanner) (t Told, err error) {
	err = r.Scan(&t.ClusterID, &t.Cluster, &t.Project, core.JSON(&t.CurrentJobs))
	return t, wrap.Errorf(err, "jobs of cluster %s", t.ClusterID)
}

// Current lists the jobs that have not ended, by cluster. Of its argument, Projects and Cluster count.
func Current(ctx context.Context, tx *core.Tx, of Of) ([]Told, error) {
	var which core.Where
	which.Among("c.project", of.Projects)
	which.When(of.Cluster != "", `(c.id = $? OR c.name = $?)`, of.Cluster, of.Cluster)
	all, err := core.List(ctx, tx, scanTold, toldFrom+which.Text+` ORDER BY c.project, c.name, c.id`, which.Args...)
	return all, wrap.Errorf(err, "list current jobs")
}

// toldOf is what the head of a cluster told last; nothing, if it told nothing.
func toldOf(ctx context.Context, tx *core.Tx, cluster string) (Told, error) {
	t, err := core.One(ctx, tx, scanTold, toldFrom+` WHERE c.id = $1`, cluster)
	if errors.Is(err, core.ErrNotFound) {
		return t, nil
	}
	return t, wrap.Errorf(err, "current jobs of cluster %s", cluster)
}

// Pause notes that the jobs of a cluster wait for it: those that ran are queued again, unless their nodes only sleep.
func Pause(ctx context.Context, tx *core.Tx, cluster string, asleep bool) error {
	t, err := toldOf(ctx, tx, cluster)
	if err != nil || len(t.Jobs) == 0 {
		return err
	}
	for i := range t.Jobs {
		j := &t.Jobs[i]
		if j.Reason = "its cluster is paused"; !asleep {
			j.Began, j.Nodes = time.Time{}, ""
		}
	}
	_, err = tx.Exec(ctx, `UPDATE cluster_jobs SET current = $2, running = 0, pending = running + pending WHERE cluster_id = $1`,
		cluster, core.JSON(t.CurrentJobs))
	return wrap.Errorf(err, "pause the jobs of cluster %s", cluster)
}

// End has the jobs of a cluster that has gone end with it.
func End(ctx context.Context, tx *core.Tx, cluster string) error {
	t, err := toldOf(ctx, tx, cluster)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	var all []protocol.EndedJob
	for _, j := range t.Jobs {
		all = append(all, protocol.EndedJob{Job: j.Job, Ended: now.Truncate(time.Second), Outcome: protocol.JobCancelled})
	}
	prices, err := pricesOf(ctx, tx, cluster, all)
	if err != nil {
		return err
	}
	for _, j := range all {
		if !bound(&j) {
			continue
		}
		of := Job{EndedJob: j, Cluster: t.Cluster, ClusterID: t.ClusterID, Project: t.Project, Cost: prices.of(j)}
		if _, err := of.add(ctx, tx); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `DELETE FROM cluster_jobs WHERE cluster_id = $1`, cluster)
	return wrap.Errorf(err, "end the jobs of cluster %s", cluster)
}
