package kinds_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// judging makes the stage's site refuse slow nodes, after three passes.
func (s *fixture) judging() {
	s.deps.Catalogue.Acceptance = inventory.DefaultAcceptance()
	s.deps.Catalogue.Acceptance.Judge, s.deps.Catalogue.Acceptance.Passes = inventory.JudgeAll, 3
}

// playTest plays the agent of a node that is asked to measure itself.
func (s *fixture) playTest(ctx context.Context, tx *core.Tx, n node.Node) (done bool, err error) {
	if s.measure == nil || n.Phase != node.Testing && n.Phase != core.Ready || n.Test == 0 ||
		n.Seen.Tested(n.Boot, n.Test) != nil {
		return false, nil
	}
	result := &protocol.TestResult{Number: n.Test, Took: time.Millisecond,
		Measures: []protocol.Measure{{Quantity: protocol.MemoryBandwidth, Value: s.measure(n)}}}
	tx.Wake(node.Kind, n.ID)
	return true, node.SaveReport(ctx, tx, n.ID, protocol.Report{Boot: n.Boot, Checks: n.Seen.Checks, Test: result})
}

// tests lists the verdicts on a machine, the newest first.
func (s *fixture) tests(machineID string) (verdicts []node.Verdict, passes []node.TestResult) {
	s.Helper()
	s.view(func(ctx context.Context, tx *core.Tx) error {
		m, err := machine.Get(ctx, tx, machineID)
		if err != nil {
			return err
		}
		passes, err = node.TestResultsOf(ctx, tx, m.ID)
		for _, p := range passes {
			verdicts = append(verdicts, p.Verdict)
		}
		return err
	})
	return verdicts, passes
}

func (s *fixture) said(machine, text string) bool {
	found := false
	s.view(func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 5000})
		for _, e := range events {
			found = found || e.Machine == machine && strings.Contains(e.Text, text)
		}
		return err
	})
	return found
}

func TestASlowNodeIsMeasuredThreeTimesAndThenReplaced(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 7)
		s.judging()
		slow := ""
		s.measure = func(n node.Node) float64 {
			if slow == "" && n.Name == "n4" {
				slow = n.Machine
			}
			if n.Machine == slow {
				return 5.1
			}
			return 11.3
		}
		s.run(1)
		s.untilFree(7)
		id := s.create("hello", 3)
		s.untilReady(id, 3)
		s.scale(id, 4)
		s.until(id, "whole, without the slow machine", func(c cluster.Cluster, nodes []node.Node) bool {
			return c.Phase == core.Ready && len(nodes) == 5 && nodes[4].Name == "n4" && nodes[4].Phase == core.Ready &&
				nodes[4].Machine != slow
		})
		verdicts, passes := s.tests(slow)
		if len(verdicts) < 3 || verdicts[0] != node.Slow || verdicts[1] != node.Again || verdicts[2] != node.Again {
			t.Errorf("verdicts, the newest first: %v", verdicts)
		}
		const words = "memory bandwidth 5.10 GB/s; its class has 11.3 (median of 3 passes)"
		if passes[0].Text != words || passes[0].Cluster != "hello" || passes[0].Node != "n4" {
			t.Errorf("%+v", passes[0])
		}
		if !s.said(slow, "node hello/n4: "+words) {
			t.Error("the machine was not set apart for that reason")
		}
		s.remove(id)
		s.untilClean(id)
	})
}

func TestWithoutASpareASlowNodeStaysOut(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 5)
	s.judging()
	s.limit(func(l *substrate.Deadlines) { l.Quarantine = time.Hour })
	s.measure = func(n node.Node) float64 {
		if n.Name == "n4" {
			return 5.1
		}
		return 11.3
	}
	s.run(1)
	s.untilFree(5)
	id := s.create("hello", 3)
	s.untilReady(id, 3)
	s.scale(id, 4)
	s.until(id, "short of a node and says why", func(c cluster.Cluster, nodes []node.Node) bool {
		return len(nodes) == 4 && strings.HasPrefix(c.Reason, "3 of 4 nodes ready") && strings.Contains(c.Short, "1 quarantined")
	})
	s.remove(id)
	s.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
}

func TestTheBestOfThreeTestsCounts(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 5)
	s.judging()
	s.measure = func(n node.Node) float64 {
		if n.Name == "n4" && n.Test == 1 { // the first time somebody disturbs it
			return 2
		}
		return 11.3
	}
	s.run(1)
	s.untilFree(5)
	id := s.create("hello", 3)
	s.untilReady(id, 3)
	s.scale(id, 4)
	s.untilReady(id, 4)
	var n4 node.Node
	s.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, id)
		n4 = nodes[4]
		return err
	})
	if verdicts, _ := s.tests(n4.Machine); len(verdicts) != 2 || verdicts[0] != node.Passed || verdicts[1] != node.Again {
		t.Errorf("verdicts, the newest first: %v", verdicts)
	}
	if n4.Test != 0 || n4.Held || n4.News == 0 {
		t.Errorf("its agent was not told that it may work: %+v", n4)
	}
	// What a run of benchmarks has found of a machine stands beside its next test.
	s.update(func(ctx context.Context, tx *core.Tx) error {
		c := bench.Change{ID: "ch1", Scope: bench.Scope{Machine: n4.Machine}, Run: "r1", Was: 100, Became: 70,
			At:   time.UnixMilli(5),
			What: bench.What{Recipe: "stream", Quantity: "triad", Unit: "GB/s", Better: "higher", Class: "local"}}
		of, err := json.Marshal(c.What)
		_, wrong := tx.Exec(ctx, `INSERT INTO benchmark_series (id, what) VALUES ($1, $2)`, c.What.ID(), string(of))
		return errors.Join(err, wrong, bench.Add(ctx, tx, bench.Run{ID: "r1", Project: "default", ClusterID: id, Cluster: "hello",
			Account: "ada"}), bench.AddChange(ctx, tx, c), node.AskTest(ctx, tx, n4.ID, 3, false))
	})
	s.until(id, "measured once more", func(cluster.Cluster, []node.Node) bool {
		verdicts, _ := s.tests(n4.Machine)
		return len(verdicts) == 3
	})
	const words = "in benchmarks triad of stream is 30 % lower since 1970-01-01 00:00:00 (run r1)"
	if _, passes := s.tests(n4.Machine); !strings.Contains(passes[0].Text, words) {
		t.Errorf("%+v", passes[0])
	}
	s.remove(id)
	s.untilClean(id)
}

func TestWhoIsNotJudgedIsHandedOverAsItIs(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]func(*inventory.Acceptance){
		"shared CPUs":     func(a *inventory.Acceptance) { a.Judge = inventory.JudgeMachines },
		"nobody":          func(a *inventory.Acceptance) { a.Judge = inventory.JudgeNothing },
		"too few to tell": func(a *inventory.Acceptance) { a.Passes = 50 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, t.TempDir()+"/db", 6)
			s.judging()
			settings(&s.deps.Catalogue.Acceptance)
			s.measure = func(n node.Node) float64 {
				if n.Name == "n5" {
					return 0.1
				}
				return 11.3
			}
			s.run(1)
			s.untilFree(6)
			id := s.create("hello", 4)
			s.untilReady(id, 4)
			s.scale(id, 5)
			s.untilReady(id, 5)
			s.until(id, "measured", func(_ cluster.Cluster, nodes []node.Node) bool {
				return !slices.ContainsFunc(nodes, func(n node.Node) bool { return n.Test != 0 })
			})
			s.view(func(ctx context.Context, tx *core.Tx) error {
				nodes, err := node.Of(ctx, tx, id)
				for _, n := range nodes {
					verdicts, passes := s.tests(n.Machine)
					if len(verdicts) != 1 || verdicts[0] != node.Passed ||
						!strings.HasPrefix(passes[0].Text, "recorded, not judged") {
						t.Errorf("%s: %v", n.Name, passes)
					}
				}
				return err
			})
		})
	}
}

func TestASlowHeadIsNotRefused(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 5)
	s.judging()
	s.measure = func(n node.Node) float64 {
		if n.Role == protocol.Head {
			return 0.1
		}
		return 11.3
	}
	s.run(1)
	s.untilFree(5)
	for range 2 {
		id := s.create("hello", 4)
		s.untilReady(id, 4)
		s.remove(id)
		s.untilClean(id)
	}
}

func TestANodeThatDoesNotMeasureItselfIsReplaced(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 3)
	s.judging()
	s.limit(func(l *substrate.Deadlines) { l.Test = 0 }) // no node measures, and none is waited for
	s.run(1)
	s.untilFree(3)
	id := s.create("hello", 1)
	s.until(id, "given up", func(cluster.Cluster, []node.Node) bool {
		failed := false
		s.view(func(ctx context.Context, tx *core.Tx) error {
			events, err := tx.Events(ctx, core.EventsOf{Limit: 5000})
			for _, e := range events {
				failed = failed || e.Phase == core.Failed && strings.Contains(e.Text, "it did not pass its test")
			}
			return err
		})
		return failed
	})
	s.remove(id)
	s.untilClean(id)
}

func TestANodeOnSharedCPUsIsReadyBeforeItHasMeasuredItself(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 2)
	s.judging()
	s.deps.Catalogue.Acceptance.Judge = inventory.JudgeMachines
	s.run(1)
	s.untilFree(2)
	id := s.create("hello", 1)
	s.untilReady(id, 1) // no node has measured yet
	nodes := s.nodesOf(id)
	if n := nodes["n1"]; n.Test != 1 || n.Held {
		t.Errorf("asked for test %d, held %v", n.Test, n.Held)
	}
	result := protocol.TestResult{Number: 1, Took: time.Millisecond,
		Measures: []protocol.Measure{{Quantity: protocol.MemoryBandwidth, Value: 0.1}}}
	s.update(func(ctx context.Context, tx *core.Tx) error {
		n := nodes["n1"]
		tx.Wake(node.Kind, n.ID)
		return node.SaveReport(ctx, tx, n.ID, protocol.Report{Boot: n.Boot, Checks: n.Seen.Checks, Test: &result})
	})
	s.until(id, "its test is kept", func(_ cluster.Cluster, nodes []node.Node) bool {
		return nodes[1].Test == 0 && nodes[1].Phase == core.Ready
	})
	if verdicts, passes := s.tests(nodes["n1"].MachineID); len(verdicts) != 1 || verdicts[0] != node.Passed ||
		passes[0].Text != "recorded, not judged" {
		t.Errorf("%v, %+v", verdicts, passes)
	}
	if !s.said(nodes["n1"].Machine, "measured itself in 1ms: memory bandwidth 0.100 GB/s") {
		t.Error("no event tells of it")
	}
	s.remove(id)
	s.untilClean(id)
}
