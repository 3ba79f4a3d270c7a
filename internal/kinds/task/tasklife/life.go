// Package tasklife is the life of tasks: told to their cluster's head, followed, ended.
//
// What enters: rows of tasks and what heads said of them. What leaves: new phases, and an event for every change.
package tasklife

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

const (
	taskLooks = 5 * time.Second // what moves a task wakes it; this is for what was missed
	// taskSilence is how long beyond its limit a task may go on for its head. It ends tasks itself, and tells at once.
	taskSilence = 15 * time.Minute
)

// taskView is a task as its handlers see it.
type taskView struct {
	task.Task
	cluster cluster.Cluster
	head    node.Node // the zero value: there is none
	before  int       // tasks of the cluster that were asked for earlier and have not ended
	now     time.Time
}

// Handlers are those of tasks, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of tasks.
func Table(d life.Deps) core.Table {
	w := Handlers{d}
	return core.StateTable[taskView]{
		DB:   w.DB,
		Of:   task.Kind,
		Load: loadTask,
		Phases: map[core.Phase]core.Handler[taskView]{
			core.Pending: {Do: taskBegin},
			task.Queued:  {Do: taskFollow},
			task.Running: {Do: taskFollow, Deadline: taskEnd, Late: taskLate},
		},
	}
}

func loadTask(ctx context.Context, tx *core.Tx, id string) (v taskView, s core.Subject, err error) {
	if v.Task, err = task.Get(ctx, tx, id); err != nil {
		return v, s, err
	}
	if v.cluster, err = cluster.Get(ctx, tx, v.Cluster); err != nil {
		return v, s, err
	}
	nodes, err := node.Of(ctx, tx, v.Cluster)
	if err != nil {
		return v, s, err
	}
	for _, n := range nodes {
		if n.Role == protocol.Head {
			v.head = n
		}
	}
	if v.before, err = task.Before(ctx, tx, v.Task); err != nil {
		return v, s, err
	}
	c := v.cluster
	s = core.Subject{Life: v.Life, Event: core.Event{Project: c.Project, ClusterID: c.ID, Cluster: c.Name}}
	if v.System() {
		s.Event.Node = v.head.Name
	}
	v.now, err = tx.Now(ctx)
	return v, s, err
}

// served says that the cluster's head is there and listens. While its cluster begins to pause it does for the pause alone.
func (t taskView) served() bool {
	c := t.cluster
	serves := c.Phase == core.Ready || c.Phase == core.Degraded || c.Phase == cluster.Pausing && t.Origin == task.Pause
	return t.head.Phase == core.Ready && t.head.Desired == core.Present && serves
}

// stranded says that a pause has gone on without its hook, whose head is gone.
func (t taskView) stranded() bool {
	over := t.cluster.Phase == cluster.Paused || t.Phase == core.Pending && t.cluster.Phase != cluster.Pausing
	return t.Origin == task.Pause && over
}

// taskBegin has the head told of a task, once it can be, and once no more than a few of its cluster's go before.
func taskBegin(_ context.Context, t taskView) core.Outcome {
	switch {
	case t.cluster.Desired == core.ToDelete:
		return t.end(task.Said{Outcome: protocol.TaskCancelled, Text: "its cluster is deleted; it had not begun"})
	case t.Cancel:
		return t.end(task.Said{Outcome: protocol.TaskCancelled, Text: "cancelled before it began"})
	case t.stranded():
		return t.end(task.Said{Outcome: protocol.TaskCancelled, Text: "the pause has gone on without it"})
	case !t.System() && t.before >= protocol.MostTasks:
		return core.WaitFor(taskLooks, "%d tasks of the cluster go first", t.before)
	case !t.served():
		return core.WaitFor(taskLooks, "the cluster's head is not ready: the cluster is %s", t.cluster.Phase)
	}
	return core.Advance(task.Queued, "task %s of %s goes to the head", t.ID, t.Account).
		With(func(ctx context.Context, tx *core.Tx) error {
			return task.Tell(ctx, tx, t.Task, t.head.Boot)
		})
}

// taskFollow draws the conclusion from what the head says of a task.
func taskFollow(_ context.Context, t taskView) core.Outcome {
	switch {
	case t.Said.Stage == protocol.TaskEnded:
		return t.end(t.Said)
	case t.cluster.Desired == core.ToDelete:
		return t.end(task.Said{Outcome: protocol.TaskCancelled, Text: "its cluster is deleted"})
	case t.stranded():
		return t.end(task.Said{Outcome: protocol.TaskLost, Text: "the pause has gone on without it"})
	case t.Said.Stage == protocol.TaskRuns && t.Phase == task.Queued:
		return core.Advance(task.Running, "task %s runs on %s", t.ID, strings.Join(t.Said.Nodes, ", "))
	}
	return core.WaitFor(taskLooks, "%s", t.Said.Text)
}

// taskEnd is when nothing more is expected of a task. While its cluster is paused, or its head away, it is not late.
func taskEnd(t taskView) time.Time {
	if !t.served() || t.Said.Stage == protocol.TaskEnded {
		return t.now.Add(time.Hour)
	}
	return t.PhaseAt.Add(t.Work.Limit + taskSilence)
}

func taskLate(t taskView) core.Outcome {
	return t.end(task.Said{Outcome: protocol.TaskLost, Text: "the head did not report its end"})
}

// end notes how a task has ended.
func (t taskView) end(said task.Said) core.Outcome {
	if said.Stage == "" { // the head has no part in it
		last := t.Said
		last.Outcome, last.Text = said.Outcome, said.Text
		said = last
	}
	said.Stage = protocol.TaskEnded
	o := core.Advance(task.Ended, "%s", t.ending(said)).With(func(ctx context.Context, tx *core.Tx) error {
		return task.End(ctx, tx, t.Task, said)
	})
	o.Asleep = true
	return o
}

// ending says in an event how a task has ended.
func (t taskView) ending(said task.Said) string {
	text := fmt.Sprintf("task %s of %s: %s", t.ID, t.Account, taskWords()[said.Outcome])
	if t.Origin == task.Pause {
		if said.Exit == nil && said.Text != "" {
			return said.Text
		}
		text = "the checkpoint hook " + taskWords()[said.Outcome]
	}
	switch {
	case said.Outcome == protocol.TaskFailed && said.Exit != nil:
		text += fmt.Sprintf(", exit status %d", *said.Exit)
	case said.Outcome != protocol.TaskOK && said.Text != "":
		text += ": " + said.Text
	}
	if n := len(said.Samples); n > 0 {
		text += ", " + words.Count(n, "sample")
	}
	if t.Origin == task.Pause {
		if !said.Began.IsZero() {
			text += fmt.Sprintf(", after %.1f s", said.Ended.Sub(said.Began).Seconds())
		}
		text += fmt.Sprintf("; `muster tasks output %s` shows what it wrote", t.ID)
	}
	return text
}

func taskWords() map[protocol.TaskOutcome]string {
	return map[protocol.TaskOutcome]string{
		protocol.TaskOK: "has ended", protocol.TaskFailed: "has failed", protocol.TaskTimedOut: "was ended at its time limit",
		protocol.TaskCancelled: "was cancelled", protocol.TaskLost: "is lost",
	}
}
