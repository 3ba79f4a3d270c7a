package clusterlife

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/job"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/kit/duration"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

// A pause gives all machines back and keeps what is worth keeping, in this order: the image's hook saves what jobs have done;
// the compute nodes drain and go; the scheduler stops and saves its state; the head goes. What stays is in the shared parts and
// in rows: /home, the head's state, seats, keys, segment; and if it is asked, nodes that sleep, see sleep.go. Each step is read
// off the nodes' rows, so that any controller goes on where another one stopped.

// toPause begins a pause, or says why there can be none: then the cluster stays as it is.
func (w Handlers) toPause(ctx context.Context, c clusterView) core.Outcome {
	var refused error
	var awake, yet string // why its nodes cannot sleep, if they are to: never, or not yet
	err := w.DB.View(ctx, func(tx *core.Tx) (err error) {
		refused, err = w.Admission.Unpausable(ctx, tx, c.Cluster)
		if err == nil && c.KeepsMemory {
			awake, yet, err = w.cannotSleep(ctx, tx, c)
		}
		return err
	})
	switch {
	case err != nil:
		return core.Retry(err)
	case refused != nil:
		return core.WaitFor(6*clusterLooks, "cannot pause: %s", refused)
	case yet != "" && c.Phase != cluster.Paused:
		return core.WaitFor(clusterLooks, "its nodes cannot be suspended yet: %s", yet)
	}
	text := "gives " + words.Count(len(c.nodes), "node") + " back"
	if c.KeepsMemory && awake == "" {
		text += ", which are suspended"
	}
	outcome := core.Advance(cluster.Pausing, "%s", text).With(func(ctx context.Context, tx *core.Tx) error {
		return cluster.Inform(ctx, tx, c.ID)
	})
	if awake == "" {
		return outcome
	}
	return outcome.With(func(ctx context.Context, tx *core.Tx) error {
		tx.Log(core.Event{Type: "cluster.awake", Project: c.Project, ClusterID: c.ID, Cluster: c.Name,
			Text: "its nodes' memory cannot be kept, and its jobs are requeued: " + awake})
		if _, err := node.LimitDrains(ctx, tx, c.ID, cluster.AtOnce); err != nil {
			return err
		}
		return cluster.KeepMemory(ctx, tx, c.ID, false)
	})
}

// clusterPausing takes the pause a step further.
func (w Handlers) clusterPausing(ctx context.Context, c clusterView) core.Outcome {
	if c.Desired == core.ToDelete {
		return c.toDelete()
	}
	var head *node.Node
	var staying, going []node.Node // compute nodes
	for _, n := range c.nodes {
		switch {
		case n.Role == protocol.Head:
			head = &n
		case n.Asleep() && c.KeepsMemory && n.Desired == core.Present:
		case n.Desired == core.Present:
			staying = append(staying, n)
		default:
			going = append(going, n)
		}
	}
	serves := head != nil && head.Desired == core.Present && head.Phase == core.Ready // its scheduler
	switch {
	case c.Desired == core.Present && head != nil && head.Desired != core.Present:
		return core.WaitFor(clusterLooks, "gives the head back, once it has saved its state, and starts it again")
	case c.Desired == core.Present && len(c.soonGone()) > 0:
		return core.WaitFor(clusterLooks, "restarts, under their names, once they are gone: %s", words.Few(c.soonGone()))
	case c.Desired == core.Present:
		return core.Advance(cluster.Resuming, "it is to run again").With(c.dropHook)
	case c.KeepsMemory && (head != nil || len(staying) > 0):
		return c.suspend(head, staying)
	case len(staying) > 0 && serves && !c.checkpointed():
		return c.checkpoint()
	case len(staying) > 0:
		return c.release(staying, serves)
	case len(going) > 0:
		return c.draining(going, serves)
	case head != nil && head.Desired == core.Present:
		return core.WaitFor(clusterLooks, "gives the head back").With(c.unlessResumed(*head, 0))
	case head != nil:
		return core.WaitFor(clusterLooks, "gives the head back, once it has saved its state")
	case len(c.returning) > 0:
		return core.WaitFor(returnLooks, "%s", back(c.returning))
	}
	held, err := w.Snapshots.Size(ctx, c.ID)
	if err != nil {
		return core.Retry(fmt.Errorf("measure what cluster %s holds: %w", c.Name, err))
	}
	outcome := core.Advance(cluster.Paused, "all machines are back; holds %s of /home and state", words.Size(held))
	if sleepers := c.asleep(); sleepers > 0 {
		outcome.Text += fmt.Sprintf(", and the memory of %s", words.Count(sleepers, "node"))
	}
	outcome.Asleep = true
	return outcome.With(func(ctx context.Context, tx *core.Tx) error {
		if err := cluster.SetShortage(ctx, tx, c.Cluster, ""); err != nil { // it lacks nothing any more
			return err
		}
		for _, n := range c.nodes { // which were to wake, if it was paused again before they did
			if err := node.FellAsleep(ctx, tx, n); err != nil {
				return err
			}
		}
		return errors.Join(cluster.SetHeld(ctx, tx, c.ID, held), job.Pause(ctx, tx, c.ID, c.asleep() > 0))
	})
}

// nameKept is how long a cluster that resumes waits for a node to be gone, for the sake of its name: it would get another one.
const nameKept = time.Minute

// soonGone names the nodes that a pause has ended and that will be gone soon.
func (c clusterView) soonGone() (names []string) {
	for _, n := range c.nodes {
		if n.Desired == node.Absent && !n.Stays() && c.now.Sub(n.PhaseAt) < nameKept {
			names = append(names, n.Name)
		}
	}
	return names
}

// hookSlack is how much longer than its limit the hook is waited for: its head ends it in time, and says so at once.
const hookSlack = 30 * time.Second

// checkpointed says that the head has run the image's hook, or has had the time for it.
func (c clusterView) checkpointed() bool {
	ended := c.hook.Said.Stage == protocol.TaskEnded || c.hook.Phase == task.Ended
	return ended || c.now.Sub(c.PhaseAt) > protocol.CheckpointLimit+hookSlack
}

// checkpoint has the head run the image's hook, once a pause, and waits for it.
func (c clusterView) checkpoint() core.Outcome {
	outcome := core.WaitFor(clusterLooks, "lets jobs save their work")
	if c.hook.ID != "" {
		return outcome
	}
	return outcome.With(func(ctx context.Context, tx *core.Tx) error {
		return task.Add(ctx, tx, task.Task{ID: core.NewID("t"), Cluster: c.ID, Origin: task.Pause, Account: task.Root,
			Work: task.Work{Command: []string{protocol.CheckpointHook}, Limit: protocol.CheckpointLimit}})
	})
}

// dropHook ends the hook of a pause that goes on no longer.
func (c clusterView) dropHook(ctx context.Context, tx *core.Tx) error {
	if c.hook.ID == "" || c.hook.Phase == task.Ended || c.hook.Said.Stage == protocol.TaskEnded {
		return nil
	}
	return task.Cancel(ctx, tx, c.hook)
}

// release lets compute nodes go. Without a head nothing says when their jobs end; the scheduler queues those again when it is
// back.
func (c clusterView) release(staying []node.Node, serves bool) core.Outcome {
	drainFor := max(c.PauseWait, cluster.AtOnce)
	if c.PauseWait == cluster.UntilJobsEnd && serves {
		drainFor = 0
	}
	outcome := core.WaitFor(clusterLooks, "releases %s", words.Count(len(staying), "node")).With(c.dropHook)
	for _, n := range staying {
		outcome = outcome.With(c.unlessResumed(n, drainFor))
	}
	return outcome
}

// unlessResumed lets a node go, unless the pause was called off meanwhile; the claim's lock keeps that so.
func (c clusterView) unlessResumed(n node.Node, drainFor time.Duration) func(context.Context, *core.Tx) error {
	return func(ctx context.Context, tx *core.Tx) error {
		fresh, err := cluster.Get(ctx, tx, c.ID)
		if err != nil || fresh.Desired != cluster.ToPause {
			return err
		}
		return node.WantAbsent(ctx, tx, n.ID, drainFor)
	}
}

func (c clusterView) draining(going []node.Node, serves bool) core.Outcome {
	names, endless := []string{}, false
	for _, n := range going {
		names = append(names, n.Name)
		endless = endless || (n.Phase == core.Ready || n.Phase == node.Draining) && n.DrainUntil.IsZero()
	}
	outcome := core.WaitFor(clusterLooks, "%s to go: %s", words.Count(len(going), "node"), words.Few(names))
	if serves || !endless {
		return outcome
	}
	return outcome.With(func(ctx context.Context, tx *core.Tx) error {
		_, err := node.LimitDrains(ctx, tx, c.ID, cluster.AtOnce)
		return err
	})
}

// clusterPaused stays so until somebody wants something else. Who asks for a pause right after a resume finds nodes that have
// begun meanwhile.
func (w Handlers) clusterPaused(ctx context.Context, c clusterView) core.Outcome {
	switch {
	case c.Desired == core.ToDelete:
		return c.toDelete()
	case c.Desired == core.Present && len(c.nodes) == 0:
		return core.Advance(cluster.Resuming, "waits for its machines to be prepared")
	case c.Desired == core.Present:
		return core.Advance(cluster.Resuming, "starts %s", words.Count(len(c.nodes), "node"))
	case len(c.nodes) > c.asleep() || len(c.nodes) > 0 && !c.KeepsMemory:
		return w.toPause(ctx, c)
	}
	return core.Rest()
}

// A resume that waits for machines looks this often whether they are prepared, since it is not told.
const resumeLooks = time.Second

// resumeWithin is how long a resume waits for machines. To prepare one takes minutes.
const resumeWithin = time.Hour

// awaitsMachines says that a resume lacks machines; in vain, that it has for so long.
func (c clusterView) awaitsMachines() (waits, inVain bool) {
	waits = c.Phase == cluster.Resuming && c.Short != ""
	return waits, waits && c.now.Sub(c.PhaseAt) > resumeWithin
}

// callOff ends a resume for which no machine came.
func (c clusterView) callOff() core.Outcome {
	outcome := core.Advance(cluster.Paused, "its resume is called off after %s: %s", duration.Text(resumeWithin), c.Short)
	outcome.Asleep = true
	return outcome.With(func(ctx context.Context, tx *core.Tx) error {
		if err := cluster.SetShortage(ctx, tx, c.Cluster, ""); err != nil {
			return err
		}
		return cluster.WantPaused(ctx, tx, c.ID)
	})
}
