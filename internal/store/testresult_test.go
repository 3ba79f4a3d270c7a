package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

// pass is the first test of a node's boot.
func pass(machine, node string, boot int64, v store.Verdict) store.Pass {
	return store.Pass{
		MachineID: machine, Machine: "local-" + machine[1:], Class: "local", Alike: "model", ClusterID: "c1", Cluster: "hello", NodeID: node, Node: node, Boot: boot,
		Image: "sha256:00", Verdict: v, Text: "why",
		Result: protocol.TestResult{Number: 1, Took: 300 * time.Millisecond, Measures: []protocol.Measure{{Quantity: protocol.MemoryBandwidth, Value: float64(boot)}}},
	}
}

func TestTestsAreRememberedAndTheOldestForgotten(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 2)
		save := func(p store.Pass) {
			t.Helper()
			update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.SavePass(ctx, p) })
			time.Sleep(2 * time.Millisecond) // the order is by the database's milliseconds
		}
		save(pass("m2", "n2", 1, store.Passed))
		const kept = 100
		for boot := range int64(kept + 5) {
			save(pass("m1", "n1", boot+1, store.Passed))
		}
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			all, err := tx.PassesOf(ctx, "m1")
			if err != nil || len(all) != kept || all[0].Boot != kept+5 || all[kept-1].Boot != 6 {
				t.Errorf("%d tests of m1 are kept, %v", len(all), err)
			}
			if got := all[0]; got.At.IsZero() || got.Result.Took != 300*time.Millisecond || got.Result.Measures[0].Value != kept+5 || got.Text != "why" {
				t.Errorf("%+v", got)
			}
			if all, err = tx.PassesOf(ctx, "m2"); err != nil || len(all) != 1 {
				t.Errorf("another machine lost its test: %v %v", all, err)
			}
			last, err := tx.LastPasses(ctx)
			if err != nil || len(last) != 2 || last[0].Machine != "local-1" || last[0].Boot != kept+5 || last[1].Machine != "local-2" {
				t.Errorf("the newest of each: %v %v", last, err)
			}
			history, err := tx.History(ctx, "local", "model", 3)
			if err != nil || len(history) != 3 || history[0].Boot != kept+5 {
				t.Errorf("%v %v", history, err)
			}
			for _, other := range [][2]string{{"metal", "model"}, {"local", "another model"}} {
				if history, err = tx.History(ctx, other[0], other[1], 3); err != nil || len(history) != 0 {
					t.Errorf("history of %v: %v %v", other, history, err)
				}
			}
			return nil
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.ForgetMachine(ctx, "m1") })
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			last, err := tx.LastPasses(ctx)
			if len(last) != 1 || last[0].Machine != "local-2" {
				t.Errorf("a machine that has left is remembered: %v", last)
			}
			return err
		})
	})
}

func TestSlowTestsAreCountedSinceTheLastThatPassed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 1)
		for i, c := range []struct {
			verdict store.Verdict
			slow    int
		}{{store.Again, 0}, {store.Slow, 1}, {store.Slow, 2}, {store.Passed, 0}, {store.Slow, 1}} {
			update(t, s, func(ctx context.Context, tx *store.Tx) error {
				return tx.SavePass(ctx, pass("m1", fmt.Sprint("n", i), 1, c.verdict))
			})
			view(t, s, func(ctx context.Context, tx *store.Tx) error {
				slow, err := tx.SlowInARow(ctx, "m1")
				if slow != c.slow {
					t.Errorf("after test %d: %d slow in a row, want %d", i, slow, c.slow)
				}
				return err
			})
			time.Sleep(2 * time.Millisecond)
		}
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			history, err := tx.History(ctx, "local", "model", 100)
			if len(history) != 1 || history[0].Verdict != store.Passed {
				t.Errorf("what is slow makes history: %v", history)
			}
			return err
		})
	})
}

func TestATestIsAskedForAndItsResultKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 1)
		addCluster(t, s, "c1", "hello")
		node := func() (n store.Node) {
			t.Helper()
			view(t, s, func(ctx context.Context, tx *store.Tx) (err error) { n, err = tx.Node(ctx, "n1"); return err })
			return n
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := addNode(ctx, tx, "n1", "c1", "n1", 3, "m1"); err != nil {
				return err
			}
			if err := tx.StartBoot(ctx, "n1", "sha256:00", false); err != nil {
				return err
			}
			return tx.AskTest(ctx, "n1", 1, true)
		})
		if n := node(); n.Test != 1 || !n.Held || n.News != 1 || n.Seen.Tested(1, 1) != nil {
			t.Errorf("%+v", n)
		}
		result := &protocol.TestResult{Number: 1, Measures: []protocol.Measure{{Quantity: protocol.ComputeRate, Value: 3}}}
		report := func(boot int64, test *protocol.TestResult) {
			t.Helper()
			update(t, s, func(ctx context.Context, tx *store.Tx) error {
				return tx.SaveReport(ctx, "n1", protocol.Report{Boot: boot, Checks: []protocol.Check{{Name: "slurmd"}, {Name: "sshd", OK: true}}, Test: test})
			})
		}
		report(1, result)
		report(1, nil) // as it does once it was heard
		seen := node().Seen
		if got := seen.Tested(1, 1); got == nil || !slices.Equal(got.Measures, result.Measures) {
			t.Errorf("%+v", got)
		}
		if seen.Tested(1, 2) != nil || seen.Tested(2, 1) != nil {
			t.Error("another test has that result")
		}
		if seen.Healthy(1) || !seen.Healthy(1, "slurmd") || seen.Healthy(1, "sshd") {
			t.Error("one check was to be left aside")
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.EndTest(ctx, "n1") })
		if n := node(); n.Test != 0 || n.Held || n.News != 2 {
			t.Errorf("its agent waits for that: %+v", n)
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.AskTest(ctx, "n1", 1, false); err != nil {
				return err
			}
			return tx.EndTest(ctx, "n1")
		})
		if n := node(); n.News != 3 {
			t.Errorf("its agent does not wait, and was told: %+v", n)
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.StartBoot(ctx, "n1", "sha256:00", false) })
		report(2, nil)
		if n := node(); n.Seen.Test != nil || n.Test != 0 {
			t.Errorf("a new boot has the old one's result: %+v", n)
		}
	})
}
