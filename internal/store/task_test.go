package store_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

// TestATasksOutputIsKeptOnceWhateverComesTwice delivers pieces twice, out of order, for another cluster and after the end.
func TestATasksOutputIsKeptOnceWhateverComesTwice(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		ctx, db := t.Context(), storetest.Open(t, url)
		addCluster(t, db, "c1", "one")
		addCluster(t, db, "c2", "two")
		update := func(do func(tx *store.Tx) error) {
			t.Helper()
			if err := db.Update(ctx, do); err != nil {
				t.Fatal(err)
			}
		}
		update(func(tx *store.Tx) error {
			return tx.AddTask(ctx, store.Task{ID: "t1", Cluster: "c1", Account: "ada", Work: store.Work{Script: "x", Limit: time.Minute}})
		})
		task := onlyTask(ctx, t, db, "t1")
		keep := func(cluster string, start int64, piece []byte, want int64) {
			t.Helper()
			err := db.Update(ctx, func(tx *store.Tx) error {
				kept, err := tx.KeepOutput(ctx, cluster, "t1", start, piece)
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
		update(func(tx *store.Tx) error {
			if err := tx.TellOfTask(ctx, task, 3); err != nil {
				return err
			}
			return tx.Settle(ctx, claim, store.Settlement{Phase: store.Queued})
		})
		keep("c1", 0, []byte("one\x00"), 4)
		keep("c1", 0, []byte("one\x00"), 4)
		keep("c1", 9, []byte("gap"), 4)
		keep("c1", 4, []byte("\xfftwo"), 8)
		if err := db.Update(ctx, func(tx *store.Tx) error {
			_, err := tx.KeepOutput(ctx, "c2", "t1", 8, []byte("foreign"))
			return err
		}); err == nil {
			t.Error("another cluster's head added to it")
		}
		keep("c1", 8, make([]byte, protocol.MostTaskOutput), protocol.MostTaskOutput)
		keep("c1", protocol.MostTaskOutput, []byte("beyond"), protocol.MostTaskOutput)

		var got []byte
		for {
			var piece []byte
			err := db.View(ctx, func(tx *store.Tx) (err error) {
				piece, err = tx.TaskOutput(ctx, "t1", int64(len(got)))
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
		update(func(tx *store.Tx) error {
			return tx.SaveTask(ctx, "c2", "t1", store.TaskSaid{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK})
		})
		if said := onlyTask(ctx, t, db, "t1").Said; said.Stage != "" {
			t.Errorf("another cluster's head was believed: %+v", said)
		}
		said := store.TaskSaid{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK, Exit: &exit, Bytes: 1 << 30}
		update(func(tx *store.Tx) error { return tx.SaveTask(ctx, "c1", "t1", said) })
		update(func(tx *store.Tx) error { return tx.EndTask(ctx, task, said) })
		update(func(tx *store.Tx) error {
			return tx.SaveTask(ctx, "c1", "t1", store.TaskSaid{Stage: protocol.TaskEnded, Outcome: protocol.TaskLost})
		})
		if ended := onlyTask(ctx, t, db, "t1"); ended.Phase != store.Ended || ended.Outcome != protocol.TaskOK || *ended.Said.Exit != 0 || ended.Boot != 3 {
			t.Errorf("it is %+v", ended)
		}
	})
}

// TestAClusterKeepsSoMuchOfItsTasks fills it, and looks that the oldest go: their output first.
func TestAClusterKeepsSoMuchOfItsTasks(t *testing.T) {
	ctx, db := t.Context(), storetest.Open(t, t.TempDir()+"/db")
	const each, count = protocol.MostTaskOutput, 10 // of which the cluster keeps 64 MiB
	addCluster(t, db, "c1", "one")
	piece := make([]byte, each)
	for i := range count {
		id := fmt.Sprintf("t%02d", i)
		err := db.Update(ctx, func(tx *store.Tx) error {
			return tx.AddTask(ctx, store.Task{ID: id, Cluster: "c1", Account: "ada", Work: store.Work{Script: "x"}})
		})
		if err != nil {
			t.Fatal(err)
		}
		claim := claimTask(ctx, t, db)
		err = db.Update(ctx, func(tx *store.Tx) error {
			return tx.Settle(ctx, claim, store.Settlement{Phase: store.Running, Never: true})
		})
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(ctx, func(tx *store.Tx) error {
			if _, err := tx.KeepOutput(ctx, "c1", id, 0, piece); err != nil {
				return err
			}
			return tx.EndTask(ctx, store.Task{ID: id, Cluster: "c1"}, store.TaskSaid{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := db.Update(ctx, func(tx *store.Tx) error {
		return tx.AddTask(ctx, store.Task{ID: "t99", Cluster: "c1", Account: "ada", Work: store.Work{Script: "x"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	err = db.View(ctx, func(tx *store.Tx) error {
		tasks, err := tx.Tasks(ctx, "c1")
		for _, task := range tasks {
			total += task.Kept
		}
		if len(tasks) != count+1 || tasks[0].ID != "t99" || tasks[1].Kept != each || tasks[count].Kept != 0 {
			t.Errorf("%d tasks, the newest is %s, the last but one keeps %d, the oldest %d", len(tasks), tasks[0].ID, tasks[1].Kept, tasks[count].Kept)
		}
		old, err2 := tx.TaskOutput(ctx, "t00", 0)
		if len(old) > 0 || err2 != nil {
			t.Errorf("the oldest has %d bytes, %v", len(old), err2)
		}
		return err
	})
	if err != nil || total != 64<<20 {
		t.Errorf("%d bytes are kept, %v", total, err)
	}
	err = db.Update(ctx, func(tx *store.Tx) error { return tx.RemoveTasks(ctx, "c1") })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.View(ctx, func(tx *store.Tx) error {
		tasks, err := tx.Tasks(ctx, "c1")
		if len(tasks) > 0 {
			t.Errorf("%d tasks are left of the cluster", len(tasks))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func onlyTask(ctx context.Context, t *testing.T, db *store.Store, id string) (task store.Task) {
	t.Helper()
	err := db.View(ctx, func(tx *store.Tx) (err error) {
		task, err = tx.Task(ctx, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func claimTask(ctx context.Context, t *testing.T, db *store.Store) store.Claim {
	t.Helper()
	claims, err := db.Claim(ctx, store.TaskKind, "test", time.Minute, 1)
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	return claims[0]
}
