package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/drivers/scheduler"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/kit/duration"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// Bounds of tasks.
const (
	mostUnfinished  = 100 // tasks of a cluster that wait or run
	usualTaskLimit  = time.Hour
	longestTask     = 7 * 24 * time.Hour
	shortestTaskEnd = time.Second
)

// owns says that a caller may see what a task runs and has found. A user's is that user's alone: others could not read it in the
// cluster either. The system's runs as root, and may say of all users what root sees: it is for those who govern the project.
func owns(ctx context.Context, c cluster.Cluster, t task.Task) bool {
	if t.System() {
		return callerOf(ctx).May(access.Govern, c.Project)
	}
	return identityOf(ctx) == t.Account
}

// taskView shows what runs, and what it has found, only to those who own it.
func taskView(ctx context.Context, c cluster.Cluster, t task.Task) apiv1.Task {
	v := apiv1.Task{
		ID: t.ID, Cluster: c.Name, ClusterID: c.ID, Origin: string(t.Origin), Account: t.Account, Phase: apiv1.Phase(t.Phase),
		Reason:  t.Reason,
		Outcome: apiv1.TaskOutcome(t.Outcome), Exit: t.Said.Exit, Job: t.Said.Job, Nodes: t.Said.Nodes, CreatedAt: t.CreatedAt,
		Cancel: t.Cancel, Bytes: t.Said.Bytes, Kept: t.Kept,
	}
	if t.Phase == task.Ended {
		v.Reason = t.Said.Text
	}
	if at := t.Said.Began; !at.IsZero() {
		v.Began = &at
	}
	if at := t.Said.Ended; !at.IsZero() {
		v.Ended = &at
	}
	if !owns(ctx, c, t) {
		return v
	}
	w := t.Work
	v.Work = &apiv1.TaskBody{
		Command: w.Command, Script: w.Script, Queue: w.Queue, Nodes: w.Nodes, On: w.On, Ranks: w.Ranks, Whole: w.Whole,
		Limit: w.Limit.String(),
	}
	v.Samples = each(t.Said.Samples, func(s protocol.TaskSample) apiv1.Sample { return apiv1.Sample(s) })
	return v
}

func (a *API) runTask(ctx context.Context, in *apiv1.RunTaskInput) (*output[apiv1.Task], error) {
	work, err := workOf(in.Body)
	if err != nil {
		return nil, err
	}
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Task) error {
		c, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return err
		}
		if err := a.runnable(ctx, tx, c, &work); err != nil {
			return err
		}
		t := task.Task{ID: core.NewID("t"), Cluster: c.ID, Account: identityOf(ctx), Work: work}
		if err := task.Add(ctx, tx, t); err != nil {
			return err
		}
		t, err = task.Get(ctx, tx, t.ID)
		*out = taskView(ctx, c, t)
		return err
	})
}

func invalidTask(format string, args ...any) error {
	return invalid(fmt.Sprintf(format, args...), "`muster run --help` shows what can be run")
}

// workOf reads what is wanted, as far as the request alone says whether it makes sense.
func workOf(b apiv1.TaskBody) (task.Work, error) {
	w := task.Work{Command: b.Command, Script: b.Script, Queue: b.Queue, Nodes: b.Nodes, On: b.On, Ranks: b.Ranks, Whole: b.Whole}
	size := len(b.Script)
	for _, word := range b.Command {
		size += len(word) + 1
	}
	switch {
	case (len(b.Command) > 0) == (b.Script != ""):
		return w, invalidTask("give a command or a script")
	case len(b.Command) > 0 && b.Command[0] == "":
		return w, invalidTask("command: the program has no name")
	case size > protocol.MostScript:
		return w, invalidTask("what is to run has %d bytes, at most %d are taken", size, protocol.MostScript)
	case strings.ContainsRune(strings.Join(b.Command, ""), 0):
		return w, invalidTask("command: it has a zero byte")
	case unfit("the script", b.Script) != "":
		return w, invalidTask("%s", unfit("the script", b.Script))
	case b.Nodes > 0 && len(b.On) > 0:
		return w, invalidTask("nodes and on: give one of them")
	case b.Ranks > 0 && b.Ranks < max(b.Nodes, len(b.On)):
		return w, invalidTask("%d ranks are too few for %d nodes", b.Ranks, max(b.Nodes, len(b.On)))
	}
	if b.Limit != "" {
		limit, err := duration.Parse(b.Limit)
		if err != nil {
			return w, invalidTask("limit: %v", err)
		}
		if w.Limit = limit; limit < shortestTaskEnd || limit > longestTask {
			return w, invalidTask("limit: it is from 1s to 7d")
		}
	}
	return w, nil
}

// runnable refuses what the cluster cannot run. It fills in the queue and the limit.
func (a *API) runnable(ctx context.Context, tx *core.Tx, c cluster.Cluster, w *task.Work) error {
	switch {
	case !c.Admits(identityOf(ctx)):
		return forbidden(fmt.Sprintf("cluster %s admits some of its project only", c.Name),
			"they stand in its file under access.users")
	case c.Desired == core.ToDelete || c.Desired == cluster.ToPause:
		return conflict(fmt.Sprintf("cluster %s is %s", c.Name, c.Phase),
			"`muster get "+c.Name+"` shows it; `muster resume` brings one back that is paused")
	}
	n, err := task.Unfinished(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if n >= mostUnfinished {
		text := fmt.Sprintf("cluster %s has %d tasks that wait or run, and no more are taken", c.Name, n)
		return conflict(text, "`muster tasks list "+c.Name+"` shows them")
	}
	by := a.Admission.Schedulers.Of(c.Spec.Scheduler())
	if err := limitTask(by, w); err != nil {
		return err
	}
	placed := w.Nodes > 0 || len(w.On) > 0 || w.Ranks > 0 || w.Whole || w.Queue != ""
	if !by.Caps.Jobs {
		if placed {
			return invalidTask("cluster %s has %s: a program starts once, on its head, and starts others from there, as "+
				"by mpirun",
				c.Name, by.Title)
		}
		return nil
	}
	if len(w.On) > 0 {
		if err := named(ctx, tx, c, w); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(c.Spec.Queues, func(q spec.Queue) bool { return w.Queue == "" || q.Name == w.Queue })
	if i < 0 {
		return invalidTask("cluster %s has no queue %q", c.Name, w.Queue)
	}
	if most := *c.Spec.Queues[i].Max; w.Nodes > most {
		return invalidTask("queue %s of cluster %s has %d nodes at most", c.Spec.Queues[i].Name, c.Name, most)
	}
	return nil
}

// limitTask fills in how long a task may run that was asked for without a limit: as long as its script says to the scheduler.
func limitTask(f scheduler.Factory, w *task.Work) error {
	var said time.Duration
	if f.Script != nil {
		var err error
		if said, err = f.Script(w.Script); err != nil {
			return invalidTask("the script's %v", err)
		}
	}
	if w.Limit > 0 {
		return nil
	}
	if w.Limit = cmp.Or(said, usualTaskLimit); w.Limit > longestTask {
		return invalidTask("limit: the script asks for %s, and 7d is the most", duration.Text(w.Limit))
	}
	return nil
}

// onHead refuses what only jobs have.
func onHead(head string, w *task.Work) error {
	if w.Queue != "" || w.Ranks > 1 || w.Whole {
		return invalidTask("%s is the head: a program starts once there, and shares it", head)
	}
	return nil
}

// named refuses nodes that a job cannot be on together.
func named(ctx context.Context, tx *core.Tx, c cluster.Cluster, w *task.Work) error {
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	queues := map[string]string{}
	for _, n := range nodes {
		if n.Role == protocol.Compute {
			queues[n.Name] = n.Queue
		} else if slices.Equal(w.On, []string{n.Name}) {
			return onHead(n.Name, w)
		}
	}
	seen := map[string]bool{}
	for _, name := range w.On {
		queue, there := queues[name]
		switch {
		case !there:
			return invalidTask("cluster %s has no compute node %q", c.Name, name)
		case seen[name]:
			return invalidTask("node %s is named twice", name)
		case w.Queue != "" && queue != w.Queue:
			return invalidTask("node %s is in queue %s, not in %s: a program runs on nodes of one queue", name, queue, w.Queue)
		}
		seen[name], w.Queue = true, cmp.Or(w.Queue, queue)
	}
	return nil
}

func (a *API) listTasks(ctx context.Context, in *apiv1.ListTasksInput) (*output[apiv1.List[apiv1.Task]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Task]) error {
		c, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return err
		}
		rows, err := task.List(ctx, tx, c.ID)
		slices.Reverse(rows)
		key := func(t task.Task) string { return inOrder(t.CreatedAt) + t.ID }
		*out = pagedAs(in.Page, rows, key, func(t task.Task) apiv1.Task {
			t.Said.Samples = nil // one asks for a task's own
			return taskView(ctx, c, t)
		})
		return err
	})
}

// findTask is the task of an ID with its cluster, if the request's action may be done there.
func (a *API) findTask(ctx context.Context, tx *core.Tx, id string) (cluster.Cluster, task.Task, error) {
	t, err := task.Get(ctx, tx, id)
	if err != nil {
		return cluster.Cluster{}, t, err
	}
	c, err := cluster.Get(ctx, tx, t.Cluster)
	if err == nil {
		err = permit(ctx, c.Project, "task "+id)
	}
	return c, t, err
}

func (a *API) getTask(ctx context.Context, in *apiv1.TaskRef) (*output[apiv1.Task], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Task) error {
		c, t, err := a.findTask(ctx, tx, in.Task)
		if err == nil {
			*out = taskView(ctx, c, t)
		}
		return err
	})
}

func (a *API) taskOutput(ctx context.Context, in *apiv1.GetTaskOutputInput) (*output[apiv1.TaskOutput], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.TaskOutput) error {
		c, t, err := a.findTask(ctx, tx, in.Task)
		if err != nil {
			return err
		}
		if !owns(ctx, c, t) {
			return forbidden(fmt.Sprintf("task %s is %s's: its output is too", t.ID, t.Account), "")
		}
		piece, err := task.Output(ctx, tx, t.ID, in.From)
		*out = apiv1.TaskOutput{Bytes: piece, Next: in.From + int64(len(piece)), Ended: t.Phase == task.Ended}
		if out.Bytes == nil {
			out.Bytes = []byte{}
		}
		return err
	})
}

func (a *API) cancelTask(ctx context.Context, in *apiv1.TaskRef) (*output[apiv1.Task], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Task) error {
		c, t, err := a.findTask(ctx, tx, in.Task)
		if err != nil {
			return err
		}
		if t.System() {
			return conflict(fmt.Sprintf("task %s is part of the cluster's pause", t.ID),
				"`muster resume "+c.Name+"` calls the pause off, and this with it")
		}
		if caller := callerOf(ctx); t.Account != caller.Name && !caller.May(access.Govern, c.Project) {
			text := fmt.Sprintf("task %s is %s's", t.ID, t.Account)
			return forbidden(text, "it takes them, or an owner of the project")
		}
		if t.Phase != task.Ended && !t.Cancel {
			if err := task.Cancel(ctx, tx, t); err != nil {
				return err
			}
		}
		t, err = task.Get(ctx, tx, t.ID)
		*out = taskView(ctx, c, t)
		return err
	})
}
