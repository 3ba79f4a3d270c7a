// Package clusterlife is the life of clusters: how intent, leases, budgets and snapshots move them from phase to phase.
//
// What enters: rows of clusters and of their nodes. What leaves: new phases, intent for nodes, and an event for every change.
package clusterlife

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/job"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/snapshot"
	"muster/internal/kinds/task"
	"muster/internal/kit/words"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// clusterView is a cluster as its handlers see it.
type clusterView struct {
	cluster.Cluster
	nodes     []node.Node  // not gone
	returning []string     // machines given up and not yet back in the pool
	alarms    []host.Alarm // of places where its nodes are among the lost
	hook      task.Task    // of its pause; the zero value: it has not begun
	now       time.Time
}

// A cluster that is not as wanted looks again by itself this often; its nodes wake it when they change.
const clusterLooks = 5 * time.Second

// Machines do not know whose they were, so a cluster that waits for them to be back in the pool looks often. It waits so
// that a caller who was told "done" can have them again.
const returnLooks = 50 * time.Millisecond

// Handlers are those of clusters, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of clusters.
func Table(d life.Deps) core.Table {
	w := Handlers{d}
	return core.StateTable[clusterView]{
		DB:   w.DB,
		Of:   cluster.Kind,
		Load: w.loadCluster,
		Phases: w.underLeases(map[core.Phase]core.Handler[clusterView]{
			core.Pending:         {Do: w.clusterAdmitted},
			cluster.Provisioning: {Do: w.clusterReconcile},
			core.Ready:           {Do: w.clusterReconcile},
			core.Degraded:        {Do: w.clusterReconcile},
			cluster.Pausing:      {Do: w.clusterPausing},
			cluster.Paused:       {Do: w.clusterPaused},
			cluster.Resuming:     {Do: w.clusterReconcile},
			core.Deleting:        {Do: w.clusterDelete},
		}),
	}
}

func (w Handlers) loadCluster(ctx context.Context, tx *core.Tx, id string) (clusterView, core.Subject, error) {
	var c clusterView
	var err error
	if c.Cluster, err = cluster.Get(ctx, tx, id); err != nil {
		return c, core.Subject{}, err
	}
	if c.nodes, err = node.Of(ctx, tx, id); err != nil {
		return c, core.Subject{}, err
	}
	if c.returning, err = node.Returning(ctx, tx, id); err != nil {
		return c, core.Subject{}, err
	}
	if c.alarms, err = w.AlarmsOf(ctx, tx, id); err != nil {
		return c, core.Subject{}, err
	}
	if c.Phase == cluster.Pausing {
		if c.hook, err = task.Hook(ctx, tx, id, c.PhaseAt); err != nil {
			return c, core.Subject{}, err
		}
	}
	c.now, err = tx.Now(ctx)
	return c, core.Subject{Life: c.Life, Event: core.Event{Project: c.Project, ClusterID: c.ID, Cluster: c.Name},
		Op: life.Operation(c.Cluster)}, err
}

// clusterAdmitted: admission has reserved every machine, or the time from when on there will be some.
func (w Handlers) clusterAdmitted(ctx context.Context, c clusterView) core.Outcome {
	if c.Desired == core.ToDelete {
		return c.toDelete()
	}
	if o, done := w.restored(ctx, c); !done {
		return o
	}
	switch {
	case c.Begins().After(c.now):
		return w.awaitStart(ctx, c)
	case len(c.nodes) == 0:
		return core.Advance(cluster.Provisioning, "takes its machines, to be there at %s", spec.When(c.StartsAt))
	}
	return core.Advance(cluster.Provisioning, "starts %s", words.Count(len(c.nodes), "node")).
		With(func(_ context.Context, tx *core.Tx) error {
			for _, n := range c.nodes {
				tx.Wake(node.Kind, n.ID) // they may have waited for their cluster's files
			}
			return nil
		})
}

// clusterReconcile compares the nodes with the intent. Missing nodes are asked for; the phase says how far it is.
func (w Handlers) clusterReconcile(ctx context.Context, c clusterView) core.Outcome {
	switch c.Desired {
	case core.ToDelete:
		return c.toDelete()
	case cluster.ToPause:
		return w.toPause(ctx, c)
	}
	if c.Reached < c.Generation {
		if err := w.Shared.GrowHome(ctx, c.ID, life.HomeOf(c.Spec)); err != nil {
			return core.Retry(err)
		}
	}
	found, outcome, changed := w.resize(ctx, c)
	if changed {
		return outcome
	}
	s := c.standing()
	waits, inVain := c.awaitsMachines()
	switch {
	case inVain && len(c.nodes) == 0:
		return c.callOff()
	case c.behind():
		outcome = w.rollOut(c, s.text())
	case s.settled && len(c.returning) > 0 && c.Reached < c.Generation:
		return core.WaitFor(returnLooks, "%s", back(c.returning))
	case s.settled && c.Reached < c.Generation && !w.listed(c):
		return core.WaitFor(returnLooks, "its host file follows")
	case s.settled && len(c.alarms) > 0:
		outcome = c.at(core.Degraded, c.alarms[0].Text, clusterLooks)
	case s.settled:
		outcome = c.at(core.Ready, s.text(), 6*clusterLooks)
		if c.Reached < c.Generation {
			outcome = outcome.With(func(ctx context.Context, tx *core.Tx) error {
				return cluster.ReachGeneration(ctx, tx, c.ID, c.Generation)
			})
			outcome = outcome.With(func(ctx context.Context, tx *core.Tx) error {
				return cluster.SaveGood(ctx, tx, c.ID, c.Root())
			})
		}
	case waits && !inVain:
		outcome = c.at(cluster.Resuming, s.text()+"; waits for machines", clusterLooks)
	case c.Phase == cluster.Resuming && !inVain:
		outcome = c.at(cluster.Resuming, s.text(), clusterLooks)
	case c.Reached < c.Generation && !c.overdue():
		outcome = c.at(cluster.Provisioning, s.text(), clusterLooks)
	default:
		outcome = c.at(core.Degraded, s.text(), clusterLooks).Because(life.CauseNodes)
	}
	outcome.After = found.look(outcome.After)
	if s.present < 1+s.want || c.Short != "" {
		outcome.After = min(outcome.After, clusterLooks)
		if c.Phase == cluster.Resuming && !inVain {
			outcome.After = min(outcome.After, resumeLooks)
		}
		return w.refill(c, outcome)
	}
	return outcome
}

func (c clusterView) toDelete() core.Outcome {
	outcome := core.Advance(core.Deleting, "releases %s", words.Count(len(c.nodes), "node"))
	return outcome.With(func(_ context.Context, tx *core.Tx) error {
		for _, n := range c.nodes { // those that drain need not wait for their jobs any more
			tx.Wake(node.Kind, n.ID)
		}
		return nil
	})
}

// refill asks admission for machines for the nodes that are missing.
func (w Handlers) refill(c clusterView, o core.Outcome) core.Outcome {
	return o.With(func(ctx context.Context, tx *core.Tx) error {
		fresh, err := cluster.Get(ctx, tx, c.ID) // as intended now; the claim's lock keeps it so
		if err != nil || fresh.Desired != core.Present {
			return err
		}
		if many, err := w.ManyFailed(ctx, tx, fresh); err != nil {
			return err
		} else if many != "" {
			return cluster.SetShortage(ctx, tx, fresh, many)
		}
		resting, why, err := w.Resting(ctx, tx, fresh)
		if err != nil {
			return err
		}
		placed, refused, err := w.Admission.Refill(ctx, tx, fresh, resting...)
		if err != nil {
			return err
		}
		for _, p := range placed {
			tx.Log(core.Event{Type: "node.placed", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Node: p.Name,
				Machine: p.Machine, Text: "comes on machine " + p.Machine})
		}
		if len(placed) > 0 {
			if err := cluster.Inform(ctx, tx, c.ID); err != nil {
				return err
			}
		}
		if refused != nil {
			why = refused.Error()
		}
		return cluster.SetShortage(ctx, tx, fresh, why)
	})
}

// at is being in a phase for a reason, whether or not it was there before.
func (c clusterView) at(p core.Phase, reason string, look time.Duration) core.Outcome {
	o := core.Advance(p, "%s", reason)
	o.After = look
	return o
}

// summary says how many nodes are ready and what the others do: "2 of 4 nodes ready; joining: n2, n3".
func summary(ready, want int, waits map[string][]string) string {
	text := fmt.Sprintf("%d of %d nodes ready", ready, want)
	for _, p := range []core.Phase{core.Pending, node.Attaching, node.Booting, node.Joining, node.Testing, node.Draining,
		core.Failed, core.Releasing} {
		names := waits[string(p)]
		if len(names) == 0 {
			continue
		}
		text += fmt.Sprintf("; %s: %s", p, words.Few(names))
	}
	return text
}

func back(machines []string) string {
	return "machines on their way back to the pool: " + words.Few(machines)
}

// clusterDelete sends every node away, then removes what they shared, and writes the receipt when nothing is left.
func (w Handlers) clusterDelete(ctx context.Context, c clusterView) core.Outcome {
	if len(c.nodes) > 0 {
		outcome := core.WaitFor(clusterLooks, "%s to go", words.Count(len(c.nodes), "node"))
		for _, n := range c.nodes {
			if n.Desired == core.Present {
				outcome = outcome.With(func(ctx context.Context, tx *core.Tx) error { return node.WantAbsent(ctx, tx, n.ID, 0) })
			}
		}
		return outcome
	}
	if len(c.returning) > 0 {
		return core.WaitFor(returnLooks, "%s", back(c.returning))
	}
	if err := w.Shared.RemoveShared(ctx, c.ID); err != nil {
		return core.Retry(err)
	}
	left, err := w.Shared.ListShared(ctx)
	if err != nil {
		return core.Retry(err)
	}
	if slices.Contains(left, c.ID) {
		return core.Retry(fmt.Errorf("the network of cluster %s is still there", c.Name))
	}
	seconds := c.now.Sub(c.CreatedAt).Seconds()
	outcome := core.Advance(core.Deleted, "nothing is left; it lived %.0f s", seconds)
	outcome.Asleep = true
	return outcome.With(func(ctx context.Context, tx *core.Tx) error {
		if err := errors.Join(task.Remove(ctx, tx, c.ID), job.End(ctx, tx, c.ID)); err != nil {
			return err
		}
		machines, err := node.MachinesOf(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		receipt := cluster.Receipt{Machines: machines, Seconds: seconds, At: c.now}
		if receipt.Guests, err = host.GuestsOf(ctx, tx, c.ID); err != nil {
			return err
		}
		for _, name := range machines {
			m, err := machine.Get(ctx, tx, name)
			if errors.Is(err, core.ErrNotFound) {
				continue // it has left the inventory since
			}
			if err != nil {
				return err
			}
			if m.Release != nil && m.Release.At.After(c.CreatedAt) && strings.HasPrefix(m.Release.From, c.Name+"/") {
				receipt.Released = append(receipt.Released, cluster.Released{Machine: name, Release: *m.Release})
			}
		}
		return cluster.SaveReceipt(ctx, tx, c.ID, receipt)
	})
}

// listed says that the head has heard which nodes are ready, where users' programs learn that from it: what a user was promised
// is there when the operation ends.
func (w Handlers) listed(c clusterView) bool {
	if !w.Schedulers.Of(c.Spec.Scheduler()).Caps.Listed {
		return true
	}
	for _, n := range c.nodes {
		if n.Role == protocol.Head && n.Phase == core.Ready {
			return n.Seen.Boot == n.Boot && n.Seen.Revision >= c.Revision+n.News
		}
	}
	return false
}

// restored gives a cluster that is made from a snapshot what is in it, before any of its nodes starts.
func (w Handlers) restored(ctx context.Context, c clusterView) (core.Outcome, bool) {
	if c.Snapshot == "" {
		return core.Outcome{}, true
	}
	leave, over := w.Turns.Enter(c.Project, false)
	if over != nil {
		return core.WaitFor(life.TurnAgain, "waits to get its files: others get theirs"), false
	}
	defer leave()
	progress := w.Copies(ctx, func(ctx context.Context, tx *core.Tx, copied int64) error {
		now, err := cluster.Get(ctx, tx, c.ID)
		if err == nil && now.Desired == core.ToDelete {
			err = life.ErrUnwanted
		}
		text := fmt.Sprintf("gets its files: %s copied", words.Size(copied))
		return errors.Join(err, snapshot.SayRestoring(ctx, tx, c.ID, text))
	})
	err := w.Snapshots.Restore(ctx, c.Snapshot, c.ID, life.HomeOf(c.Spec), progress)
	switch {
	case errors.Is(err, life.ErrUnwanted):
		return c.toDelete(), false
	case err != nil:
		return core.Retry(err), false
	}
	return core.Outcome{}, true
}
