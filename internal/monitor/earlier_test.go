package monitor

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/task"
	"muster/internal/noded/protocol"
	"muster/internal/spec"
)

// A head whose agent runs the hook by the pause's first step says by a check how that ended.
func TestAnOlderHeadsHookIsATaskThatHasEnded(t *testing.T) {
	db := kindstest.Open(t, t.TempDir()+"/db")
	kindstest.AddCluster(t, db, "c1", "one")
	kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
		if err := task.Add(ctx, tx, task.Task{ID: "t1", Cluster: "c1", Origin: task.Pause, Account: task.Root}); err != nil {
			return err
		}
		return task.Add(ctx, tx, task.Task{ID: "t2", Cluster: "c1", Account: "ada"})
	})
	claims, err := db.Claim(t.Context(), task.Kind, "test", time.Minute, 2)
	if err != nil || len(claims) != 2 {
		t.Fatal(claims, err)
	}
	for _, claim := range claims {
		kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
			return tx.Settle(ctx, claim, core.Settlement{Phase: task.Queued})
		})
	}
	said := func(checks ...protocol.Check) (hook, user task.Task) {
		kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
			if err := earlierHook(ctx, tx, "c1", checks); err != nil {
				return err
			}
			if hook, err = task.Get(ctx, tx, "t1"); err == nil {
				user, err = task.Get(ctx, tx, "t2")
			}
			return err
		})
		return hook, user
	}
	if hook, _ := said(protocol.Check{Name: "munge", OK: true}); hook.Said.Stage != "" {
		t.Errorf("its hook has ended with %+v", hook.Said)
	}
	hook, user := said(protocol.Check{Name: "checkpoint", Text: "the checkpoint hook failed: no disk"})
	if s := hook.Said; s.Stage != protocol.TaskEnded || s.Outcome != protocol.TaskFailed ||
		s.Text != "the checkpoint hook failed: no disk" {
		t.Errorf("its hook has ended with %+v", s)
	}
	if user.Said.Stage != "" {
		t.Errorf("a user's task has ended with %+v", user.Said)
	}
}

// A head whose agent came with an older version reports the scheduler's own words, until its node boots again.
func TestAnOlderHeadIsHeard(t *testing.T) {
	m := &Monitor{Schedulers: drivers.Schedulers()}
	var report protocol.Report
	if err := json.Unmarshal([]byte(
		`{"boot":1,"slurm":{"nodes":[{"name":"n1","state":"allocated","responding":true,"jobs":1}],"waits":2}}`),
		&report); err != nil {
		t.Fatal(err)
	}
	said := m.earlier(cluster.Cluster{Spec: spec.Cluster{Name: "cfd"}}, report)
	if said == nil || len(said.Nodes) != 1 || said.Nodes[0].State != protocol.NodeBusy || said.Total != 2 {
		t.Errorf("heard is %+v", said)
	}
	if said := m.earlier(cluster.Cluster{Spec: spec.Cluster{Software: &spec.Software{Scheduler: "none"}}}, report); said != nil {
		t.Errorf("of a cluster without a scheduler, heard is %+v", said)
	}
	if said := m.earlier(cluster.Cluster{Spec: spec.Cluster{Name: "cfd"}}, protocol.Report{}); said != nil {
		t.Errorf("of a node that says nothing of it, heard is %+v", said)
	}
}
