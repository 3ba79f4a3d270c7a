package tasklife

import (
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
)

// TestWhatBecomesOfATask spells out what its handlers conclude from its cluster, its head and what that says.
func TestWhatBecomesOfATask(t *testing.T) {
	now := time.Now()
	ready := func(change func(*taskView)) taskView {
		v := taskView{now: now, cluster: cluster.Cluster{Desired: core.Present, Revision: 5},
			head: node.Node{Desired: core.Present, Boot: 2, News: 3}}
		v.ID, v.Account, v.Phase, v.PhaseAt, v.Work.Limit = "t1", "ada", task.Queued, now.Add(-time.Minute), time.Hour
		v.cluster.Phase, v.head.Phase = core.Ready, core.Ready
		v.head.Seen = node.Observed{Boot: 2, Revision: 8, At: now}
		change(&v)
		return v
	}
	hook := func(change func(*taskView)) taskView {
		return ready(func(v *taskView) {
			v.Origin, v.Account, v.cluster.Phase = task.Pause, task.Root, cluster.Pausing
			change(v)
		})
	}
	exit := 3
	for name, c := range map[string]struct {
		task    taskView
		phase   core.Phase // "": it stays
		outcome string     // part of the text
	}{
		"the head is ready": {ready(func(v *taskView) { v.Phase = core.Pending }), task.Queued, "goes to the head"},
		"its cluster is not ready": {ready(func(v *taskView) {
			v.Phase, v.cluster.Phase = core.Pending, cluster.Provisioning
		}), "", "is provisioning"},
		"its cluster is degraded": {ready(func(v *taskView) {
			v.Phase, v.cluster.Phase = core.Pending, core.Degraded
		}), task.Queued, ""},
		"the head boots": {ready(func(v *taskView) {
			v.Phase, v.head.Phase = core.Pending, node.Booting
		}), "", "head is not ready"},
		"others go first": {ready(func(v *taskView) {
			v.Phase, v.before = core.Pending, protocol.MostTasks
		}), "", "16 tasks of the cluster go first"},
		"cancelled before it is told of": {ready(func(v *taskView) {
			v.Phase, v.Cancel = core.Pending, true
		}), task.Ended, "cancelled"},
		"its cluster is deleted before": {ready(func(v *taskView) {
			v.Phase, v.cluster.Desired = core.Pending, core.ToDelete
		}), task.Ended, "had not begun"},
		"it waits in the queue": {ready(func(v *taskView) {
			v.Said = task.Said{Stage: protocol.TaskWaits, Text: "Resources"}
		}), "", "Resources"},
		"it runs": {ready(func(v *taskView) {
			v.Said = task.Said{Stage: protocol.TaskRuns, Nodes: []string{"n1", "n2"}}
		}), task.Running, "runs on n1, n2"},
		"it has failed": {ready(func(v *taskView) {
			v.Said = task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskFailed, Exit: &exit}
		}), task.Ended, "has failed, exit status 3"},
		"it has ended while its cluster was being deleted": {ready(func(v *taskView) {
			v.cluster.Desired, v.Said = core.ToDelete, task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK}
		}), task.Ended, "has ended"},
		"a pause's hook begins, whoever goes first": {hook(func(v *taskView) {
			v.Phase, v.before = core.Pending, protocol.MostTasks
		}), task.Queued, "of root goes to the head"},
		"a user's task waits while its cluster pauses": {ready(func(v *taskView) {
			v.Phase, v.cluster.Phase = core.Pending, cluster.Pausing
		}), "", "is pausing"},
		"a hook was not there": {hook(func(v *taskView) {
			v.Said = task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK, Text: "the image has no hook"}
		}), task.Ended, "the image has no hook"},
		"a hook has failed": {hook(func(v *taskView) {
			v.Said = task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskFailed, Exit: &exit, Began: now,
				Ended: now.Add(time.Second)}
		}), task.Ended, "the checkpoint hook has failed, exit status 3, after 1.0 s; `muster tasks output t1`"},
		"a pause has ended without its hook": {hook(func(v *taskView) {
			v.cluster.Phase = cluster.Paused
		}), task.Ended, "gone on without it"},
		"a pause was called off before its hook": {hook(func(v *taskView) {
			v.Phase, v.cluster.Phase = core.Pending, cluster.Resuming
		}), task.Ended, "gone on without it"},
	} {
		handle := taskFollow
		if c.task.Phase == core.Pending {
			handle = taskBegin
		}
		o := handle(t.Context(), c.task)
		if o.Phase != c.phase || !strings.Contains(o.Text, c.outcome) || o.Err != nil {
			t.Errorf("%s: %q, %q, %v", name, o.Phase, o.Text, o.Err)
		}
	}

	silent := ready(func(v *taskView) { v.Phase, v.PhaseAt = task.Running, now.Add(-2*time.Hour) })
	if end := taskEnd(silent); !now.After(end) {
		t.Errorf("one of which nobody tells is late at %v", end)
	}
	if o := taskLate(silent); o.Phase != task.Ended || !strings.Contains(o.Text, "is lost") {
		t.Errorf("%q, %q", o.Phase, o.Text)
	}
	silent.cluster.Phase = cluster.Paused
	if end := taskEnd(silent); now.After(end) {
		t.Errorf("one of a paused cluster is late")
	}
}
