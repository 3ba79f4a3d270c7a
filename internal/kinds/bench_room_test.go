package kinds_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"muster/internal/bench/recipe"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/kindstest"
	"muster/internal/protocol"
)

// addNodes adds ready nodes n1, n2, … of cluster c1 on this host, in queue main. Those that are idle have no job.
func addNodes(ctx context.Context, tx *core.Tx, idle ...bool) error {
	for i, is := range idle {
		name := fmt.Sprint("n", i+1)
		if err := kindstest.AddNode(ctx, tx, name, "c1", name, i+1, fmt.Sprint("m", i+1)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO observed (node_id, boot, seen_at, revision, checks, facts, idle_at)
			VALUES ($1, 1, 1, 1, '[]', '{}', $2)`, name, core.Flag(is))
		if err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `UPDATE node SET phase = 'ready'`)
	return err
}

// TestRunsOnOneHostDoNotMeasureEachOther: only one of them has a job at a time, and all come to their end.
func TestRunsOnOneHostDoNotMeasureEachOther(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		p := planOf(t, 2, "run: echo q 1\n"+readsQ)
		addBench(t, s, p)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := addNodes(ctx, tx, true); err != nil {
				return err
			}
			return bench.Add(ctx, tx, bench.Run{ID: "b2", Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada",
				Plan: p.Drawn()})
		})
		startBench(t, s)
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			var all []bench.Run
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				all, err = bench.List(ctx, tx, bench.Of{Limit: 10})
				return err
			})
			var busy []bench.Run
			ended := 0
			for _, r := range all {
				if r.Task != "" {
					busy = append(busy, r)
				}
				if r.Phase == bench.Ended && r.Outcome == bench.OK {
					ended++
				}
			}
			switch {
			case ended == 2:
				return
			case len(busy) > 1:
				t.Fatalf("both measure at once: %+v", busy)
			case time.Now().After(end):
				t.Fatalf("%+v", all)
			case len(busy) == 1:
				output := fmt.Appendf(nil, "\n@%s begin 0\nq 1\n@%s end 0 0 1 2\n", busy[0].Plan.Mark, busy[0].Plan.Mark)
				endTaskOnce(t, s, busy[0].Task, output)
			}
		}
	})
}

// endTaskOnce ends a task that may have ended already.
func endTaskOnce(t *testing.T, s *core.Store, id string, output []byte) {
	t.Helper()
	running := false
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
		return tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM task WHERE id = $1 AND phase <> 'ended')`, id).Scan(&running)
	})
	if running {
		endTask(t, s, id, protocol.TaskOK, output)
	}
}

// TestARunWaitsForNodesThatUsersHave, unless they were set aside for it.
func TestARunWaitsForNodesThatUsersHave(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 2)
		p := planOf(t, 1, "run: echo q 1\n"+readsQ)
		p.Queue = "main"
		reserved := p.Drawn()
		reserved.Reserved = "maint"
		addBench(t, s, p)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := addNodes(ctx, tx, true, false); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE cluster SET spec = '{"name": "hello", "queues": [{"name": "main", "max": 2}]}'`)
			return err
		})
		startBench(t, s)
		awaitRun(t, s, "it waits", func(r bench.Run) bool {
			return r.Reason == "round 1 of 1 waits: 1 of the 2 nodes that it takes are free"
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return bench.Add(ctx, tx, bench.Run{ID: "b2", Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada",
				Plan: reserved})
		})
		var other bench.Run
		awaitRun(t, s, "the other begins in its reservation", func(bench.Run) bool {
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				other, err = bench.Get(ctx, tx, "b2")
				return err
			})
			return other.Task != ""
		})
		awaitRun(t, s, "it waits for that one", func(r bench.Run) bool {
			return r.Reason == "round 1 of 1 waits: another run measures on its hosts"
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { // its job does not begin for long
			_, err := tx.Exec(ctx, `UPDATE task SET created_at = 1 WHERE id = $1`, other.Task)
			return err
		})
		awaitRun(t, s, "it waits for users' jobs again", func(r bench.Run) bool {
			return r.Reason == "round 1 of 1 waits: 1 of the 2 nodes that it takes are free"
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE observed SET idle_at = 1`)
			return err
		})
		awaitRun(t, s, "it begins", func(r bench.Run) bool { return r.Task != "" })
	})
}

// TestARunEndsOnceItIsPrecise: after six rounds of the same value, of twenty, alone and in turns.
func TestARunEndsOnceItIsPrecise(t *testing.T) {
	for name, peer := range map[string]string{"alone": "", "in turns": "b2"} {
		t.Run(name, func(t *testing.T) {
			s := kindstest.Open(t, t.TempDir()+"/db")
			p := planOf(t, 20, "run: echo q 1\n"+readsQ)
			p.Precise = 0.02
			var others []bench.Run
			if peer != "" {
				others = []bench.Run{{ID: "b2", Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada", Plan: p}}
				others[0].Peer, others[0].Plan.Second = "b1", true
			}
			addBench(t, s, p, others...)
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { // all but the last round
				for _, r := range append(others, bench.Run{ID: "b1"}) {
					for i := range 5 {
						sample := recipe.Sample{Quantity: "q", Value: 1, Unit: "s", Better: recipe.Lower}
						step := bench.Step{State: bench.StepOK, Samples: []recipe.Sample{sample}}
						o := bench.Round{Number: i, State: "ok", Steps: []bench.Step{step}}
						if err := bench.SaveRound(ctx, tx, r, o); err != nil {
							return err
						}
					}
				}
				return nil
			})
			startBench(t, s)
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				var all []bench.Run
				kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
					all, err = bench.List(ctx, tx, bench.Of{Limit: 10})
					return err
				})
				ended := 0
				for _, r := range all {
					if r.Task != "" {
						endTaskOnce(t, s, r.Task, []byte("\n@m4rkm4rk begin 0\nq 1\n\n@m4rkm4rk end 0 0 1 2\n"))
					}
					if r.Phase == bench.Ended {
						ended++
						if r.Round != 6 || r.Outcome != bench.OK {
							t.Errorf("%+v", r)
						}
					}
				}
				if ended == len(others)+1 {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%+v", all)
				}
			}
		})
	}
}
