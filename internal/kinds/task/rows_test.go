package task_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
)

// TestATasksOutputIsKeptOnceWhateverComesTwice delivers pieces twice, out of order, for another cluster and after the end.
func TestATasksOutputIsKeptOnceWhateverComesTwice(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		ctx, db := t.Context(), kindstest.Open(t, url)
		kindstest.AddCluster(t, db, "c1", "one")
		kindstest.AddCluster(t, db, "c2", "two")
		update := func(do func(tx *core.Tx) error) {
			t.Helper()
			if err := db.Update(ctx, do); err != nil {
				t.Fatal(err)
			}
		}
		update(func(tx *core.Tx) error {
			return task.Add(ctx, tx, task.Task{ID: "t1", Cluster: "c1", Account: "ada",
				Work: task.Work{Script: "x", Limit: time.Minute}})
		})
		one := onlyTask(ctx, t, db, "t1")
		keep := func(cluster string, start int64, piece []byte, want int64) {
			t.Helper()
			err := db.Update(ctx, func(tx *core.Tx) error {
				kept, err := task.KeepOutput(ctx, tx, cluster, "t1", start, piece)
				if err == nil && kept != want {
					err = fmt.Errorf("%d bytes are kept, want %d", kept, want)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		keep("c1", 0, []byte("early"), 0) // the head was not told of it
		claim := claimTask(ctx, t, db)
		update(func(tx *core.Tx) error {
			if err := task.Tell(ctx, tx, one, 3); err != nil {
				return err
			}
			return tx.Settle(ctx, claim, core.Settlement{Phase: task.Queued})
		})
		keep("c1", 0, []byte("one\x00"), 4)
		keep("c1", 0, []byte("one\x00"), 4)
		keep("c1", 9, []byte("gap"), 4)
		keep("c1", 4, []byte("\xfftwo"), 8)
		if err := db.Update(ctx, func(tx *core.Tx) error {
			_, err := task.KeepOutput(ctx, tx, "c2", "t1", 8, []byte("foreign"))
			return err
		}); err == nil {
			t.Error("another cluster's head added to it")
		}
		for start := int64(8); start < 5008; start += 100 { // a call does not take a row
			keep("c1", start, make([]byte, 100), start+100)
		}
		var rows int
		kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
			return tx.Row(ctx, `SELECT COUNT(*) FROM task_output`).Scan(&rows)
		})
		if rows != 2 {
			t.Errorf("%d rows for 5008 bytes", rows)
		}
		keep("c1", 5008, make([]byte, protocol.MostTaskOutput), protocol.MostTaskOutput)
		keep("c1", protocol.MostTaskOutput, []byte("beyond"), protocol.MostTaskOutput)

		var got []byte
		for {
			var piece []byte
			err := db.View(ctx, func(tx *core.Tx) (err error) {
				piece, err = task.Output(ctx, tx, "t1", int64(len(got)))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(piece) == 0 {
				break
			}
			got = append(got, piece...)
		}
		if len(got) != protocol.MostTaskOutput || !bytes.HasPrefix(got, []byte("one\x00\xfftwo\x00")) {
			t.Errorf("%d bytes, which begin with %q", len(got), got[:min(len(got), 10)])
		}

		exit := 0
		update(func(tx *core.Tx) error {
			return task.Save(ctx, tx, "c2", "t1", task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK})
		})
		if said := onlyTask(ctx, t, db, "t1").Said; said.Stage != "" {
			t.Errorf("another cluster's head was believed: %+v", said)
		}
		said := task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK, Exit: &exit, Bytes: 1 << 30}
		update(func(tx *core.Tx) error { return task.Save(ctx, tx, "c1", "t1", said) })
		update(func(tx *core.Tx) error { return task.End(ctx, tx, one, said) })
		update(func(tx *core.Tx) error {
			return task.Save(ctx, tx, "c1", "t1", task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskLost})
		})
		if ended := onlyTask(ctx, t, db, "t1"); ended.Phase != task.Ended || ended.Outcome != protocol.TaskOK ||
			*ended.Said.Exit != 0 || ended.Boot != 3 {
			t.Errorf("it is %+v", ended)
		}
	})
}

// TestAClusterKeepsSoMuchOfItsTasks fills it, and looks that the oldest go: their output first.
func TestAClusterKeepsSoMuchOfItsTasks(t *testing.T) {
	ctx, db := t.Context(), kindstest.Open(t, t.TempDir()+"/db")
	const each, count = protocol.MostTaskOutput, 10 // the cluster keeps 64 MiB of them
	kindstest.AddCluster(t, db, "c1", "one")
	piece := make([]byte, each)
	for i := range count {
		ranTask(ctx, t, db, fmt.Sprintf("t%02d", i), "x", piece)
	}
	total := int64(0)
	err := db.View(ctx, func(tx *core.Tx) error {
		tasks, err := task.List(ctx, tx, "c1")
		for _, task := range tasks {
			total += task.Kept
		}
		if len(tasks) != count || tasks[0].ID != "t09" || tasks[0].Kept != each || tasks[count-1].Kept != 0 {
			t.Errorf("%d tasks, the newest is %s and keeps %d, the oldest %d", len(tasks), tasks[0].ID, tasks[0].Kept,
				tasks[count-1].Kept)
		}
		old, err2 := task.Output(ctx, tx, "t00", 0)
		if len(old) > 0 || err2 != nil {
			t.Errorf("the oldest has %d bytes, %v", len(old), err2)
		}
		return err
	})
	if err != nil || total != 64<<20 {
		t.Errorf("%d bytes are kept, %v", total, err)
	}
	err = db.Update(ctx, func(tx *core.Tx) error { return task.Remove(ctx, tx, "c1") })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.View(ctx, func(tx *core.Tx) error {
		tasks, err := task.List(ctx, tx, "c1")
		if len(tasks) > 0 {
			t.Errorf("%d tasks are left of the cluster", len(tasks))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestAClusterKeepsSoManyBytesOfWhatItsTasksRan has tasks with long scripts and long stories: 16 MiB are kept of each origin.
func TestAClusterKeepsSoManyBytesOfWhatItsTasksRan(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		ctx, db := t.Context(), kindstest.Open(t, url)
		kindstest.AddCluster(t, db, "c1", "one")
		kindstest.AddCluster(t, db, "c2", "two")
		err := db.Update(ctx, func(tx *core.Tx) error {
			return task.Add(ctx, tx, task.Task{ID: "other", Cluster: "c2", Account: "ada"})
		})
		if err != nil {
			t.Fatal(err)
		}
		claimTask(ctx, t, db)
		for i := range 20 {
			ranTask(ctx, t, db, fmt.Sprintf("t%02d", i), strings.Repeat("x", 1<<20), []byte("output"))
		}
		for i, kept := range map[int]bool{0: false, 4: false, 5: true, 19: true} {
			id := fmt.Sprintf("t%02d", i)
			err := db.View(ctx, func(tx *core.Tx) error {
				_, err := task.Get(ctx, tx, id)
				output, err2 := task.Output(ctx, tx, id, 0)
				if (err == nil) != kept || (len(output) > 0) != kept {
					t.Errorf("task %s: %v, %d bytes of output; kept: %t is wanted", id, err, len(output), kept)
				}
				return err2
			})
			if err != nil {
				t.Error(err)
			}
		}
		onlyTask(ctx, t, db, "other")
	})
}

// ranTask adds a task that has run and ended.
func ranTask(ctx context.Context, t *testing.T, db *core.Store, id, script string, output []byte) {
	t.Helper()
	err := db.Update(ctx, func(tx *core.Tx) error {
		return task.Add(ctx, tx, task.Task{ID: id, Cluster: "c1", Account: "ada", Work: task.Work{Script: script}})
	})
	if err != nil {
		t.Fatal(err)
	}
	claim := claimTask(ctx, t, db)
	err = db.Update(ctx, func(tx *core.Tx) error {
		return tx.Settle(ctx, claim, core.Settlement{Phase: task.Running, Never: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(ctx, func(tx *core.Tx) error {
		if _, err := task.KeepOutput(ctx, tx, "c1", id, 0, output); err != nil {
			return err
		}
		return task.End(ctx, tx, task.Task{ID: id, Cluster: "c1"}, task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func onlyTask(ctx context.Context, t *testing.T, db *core.Store, id string) (one task.Task) {
	t.Helper()
	err := db.View(ctx, func(tx *core.Tx) (err error) {
		one, err = task.Get(ctx, tx, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func claimTask(ctx context.Context, t *testing.T, db *core.Store) core.Claim {
	t.Helper()
	claims, err := db.Claim(ctx, task.Kind, "test", time.Minute, 1)
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	return claims[0]
}

// TestASystemsTasksCountForNoUser has a pause's hook beside a user's task: each has bounds of its own.
func TestASystemsTasksCountForNoUser(t *testing.T) {
	ctx, db := t.Context(), kindstest.Open(t, t.TempDir()+"/db")
	kindstest.AddCluster(t, db, "c1", "one")
	var begun, after time.Time
	err := db.Update(ctx, func(tx *core.Tx) (err error) {
		for _, one := range []task.Task{
			{ID: "t1", Cluster: "c1", Origin: task.Pause, Account: task.Root}, {ID: "t2", Cluster: "c1", Account: "ada"},
		} {
			if err := task.Add(ctx, tx, one); err != nil {
				return err
			}
		}
		begun, err = tx.Now(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	after = begun.Add(time.Second)
	one, user := onlyTask(ctx, t, db, "t1"), onlyTask(ctx, t, db, "t2")
	if !one.System() || one.Account != task.Root || user.System() {
		t.Errorf("%+v, %+v", one, user)
	}
	err = db.View(ctx, func(tx *core.Tx) error {
		unfinished, err1 := task.Unfinished(ctx, tx, "c1")
		before, err2 := task.Before(ctx, tx, user)
		hook, err3 := task.Hook(ctx, tx, "c1", one.CreatedAt)
		later, err4 := task.Hook(ctx, tx, "c1", after)
		if unfinished != 1 || before != 0 || hook.ID != "t1" || later.ID != "" {
			t.Errorf("%d unfinished, %d before, hook %q, and %q of a later pause", unfinished, before, hook.ID, later.ID)
		}
		return errors.Join(err1, err2, err3, err4)
	})
	if err != nil {
		t.Fatal(err)
	}
}
