package node_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// pass is the first test of a node's boot.
func pass(machine, nodeID string, boot int64, v node.Verdict) node.TestResult {
	return node.TestResult{
		MachineID: machine, Machine: "local-" + machine[1:], Class: "local", ComparisonGroup: "model", ClusterID: "c1",
		Cluster: "hello", NodeID: nodeID, Node: nodeID, Boot: boot,
		Image: "sha256:00", Verdict: v, Text: "why",
		Result: protocol.TestResult{Number: 1, Took: 300 * time.Millisecond,
			Measures: []protocol.Measure{{Quantity: protocol.MemoryBandwidth, Value: float64(boot)}}},
	}
}

func TestTestsAreRememberedAndTheOldestForgotten(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 2)
		save := func(p node.TestResult) {
			t.Helper()
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return node.SaveTestResult(ctx, tx, p) })
			time.Sleep(2 * time.Millisecond) // the order is by the database's milliseconds
		}
		save(pass("m2", "n2", 1, node.Passed))
		const kept = 100
		for boot := range int64(kept + 5) {
			save(pass("m1", "n1", boot+1, node.Passed))
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			all, err := node.TestResultsOf(ctx, tx, "m1")
			if err != nil || len(all) != kept || all[0].Boot != kept+5 || all[kept-1].Boot != 6 {
				t.Errorf("%d tests of m1 are kept, %v", len(all), err)
			}
			if got := all[0]; got.At.IsZero() || got.Result.Took != 300*time.Millisecond || got.Result.Measures[0].Value != kept+
				5 || got.Text != "why" {
				t.Errorf("%+v", got)
			}
			if all, err = node.TestResultsOf(ctx, tx, "m2"); err != nil || len(all) != 1 {
				t.Errorf("another machine lost its test: %v %v", all, err)
			}
			last, err := node.LastTestResults(ctx, tx)
			if err != nil || len(last) != 2 || last[0].Machine != "local-1" || last[0].Boot != kept+5 ||
				last[1].Machine != "local-2" {
				t.Errorf("the newest of each: %v %v", last, err)
			}
			history, err := node.History(ctx, tx, "local", "model", 3)
			if err != nil || len(history) != 3 || history[0].Boot != kept+5 {
				t.Errorf("%v %v", history, err)
			}
			for _, other := range [][2]string{{"metal", "model"}, {"local", "another model"}} {
				if history, err = node.History(ctx, tx, other[0], other[1], 3); err != nil || len(history) != 0 {
					t.Errorf("history of %v: %v %v", other, history, err)
				}
			}
			return nil
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return machine.Forget(ctx, tx, "m1") })
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			last, err := node.LastTestResults(ctx, tx)
			if len(last) != 1 || last[0].Machine != "local-2" {
				t.Errorf("a machine that has left is remembered: %v", last)
			}
			return err
		})
	})
}

func TestSlowTestsAreCountedSinceTheLastThatPassed(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		for i, c := range []struct {
			verdict node.Verdict
			slow    int
		}{{node.Again, 0}, {node.Slow, 1}, {node.Slow, 2}, {node.Passed, 0}, {node.Slow, 1}} {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return node.SaveTestResult(ctx, tx, pass("m1", fmt.Sprint("n", i), 1, c.verdict))
			})
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
				slow, err := node.SlowInARow(ctx, tx, "m1")
				if slow != c.slow {
					t.Errorf("after test %d: %d slow in a row, want %d", i, slow, c.slow)
				}
				return err
			})
			time.Sleep(2 * time.Millisecond)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			history, err := node.History(ctx, tx, "local", "model", 100)
			if len(history) != 1 || history[0].Verdict != node.Passed {
				t.Errorf("what is slow makes history: %v", history)
			}
			return err
		})
	})
}

func TestATestIsAskedForAndItsResultKept(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		kindstest.AddCluster(t, s, "c1", "hello")
		newNode := func() (n node.Node) {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				n, err = node.Get(ctx, tx, "n1")
				return err
			})
			return n
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 3, "m1"); err != nil {
				return err
			}
			if err := node.StartBoot(ctx, tx, "n1", "sha256:00", false); err != nil {
				return err
			}
			return node.AskTest(ctx, tx, "n1", 1, true)
		})
		if n := newNode(); n.Test != 1 || !n.Held || n.News != 1 || n.Seen.Tested(1, 1) != nil {
			t.Errorf("%+v", n)
		}
		result := &protocol.TestResult{Number: 1, Measures: []protocol.Measure{{Quantity: protocol.ComputeRate, Value: 3}}}
		report := func(boot int64, test *protocol.TestResult) {
			t.Helper()
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return node.SaveReport(ctx, tx, "n1",
					protocol.Report{Boot: boot, Checks: []protocol.Check{{Name: "slurmd"}, {Name: "sshd", OK: true}}, Test: test})
			})
		}
		report(1, result)
		report(1, nil) // as it does once it was heard
		seen := newNode().Seen
		if got := seen.Tested(1, 1); got == nil || !slices.Equal(got.Measures, result.Measures) {
			t.Errorf("%+v", got)
		}
		if seen.Tested(1, 2) != nil || seen.Tested(2, 1) != nil {
			t.Error("another test has that result")
		}
		if seen.Healthy(1) || !seen.Healthy(1, "slurmd") || seen.Healthy(1, "sshd") {
			t.Error("one check was to be left aside")
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return node.EndTest(ctx, tx, "n1") })
		if n := newNode(); n.Test != 0 || n.Held || n.News != 2 {
			t.Errorf("its agent waits for that: %+v", n)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := node.AskTest(ctx, tx, "n1", 1, false); err != nil {
				return err
			}
			return node.EndTest(ctx, tx, "n1")
		})
		if n := newNode(); n.News != 3 {
			t.Errorf("its agent does not wait, and was told: %+v", n)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return node.StartBoot(ctx, tx, "n1", "sha256:00", false)
		})
		report(2, nil)
		if n := newNode(); n.Seen.Test != nil || n.Test != 0 {
			t.Errorf("a new boot has the old one's result: %+v", n)
		}
	})
}
