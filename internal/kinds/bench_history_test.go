package kinds_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/bench/recipe"
	"muster/internal/bench/round"
	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
)

const readsNodes = `read: [{quantity: q, lines: '^(?P<node>n\d) (?P<value>.*)', unit: GB/s, better: higher}]` + "\n"

// TestAMachineThatHasBecomeSlowerIsNamed once, with what else changed then, until somebody accepts it.
func TestAMachineThatHasBecomeSlowerIsNamed(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		p := planOf(t, 1, "run: echo n1 70; echo n2 100\n"+readsNodes)
		kindstest.AddMachines(t, s, 3)
		runBench(t, s, p)
		r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return earlierRuns(ctx, tx, p, "c1") })
		endTask(t, s, r.Task, protocol.TaskOK, runJob(t, s, r.Task), "n1", "n2")
		awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
		var trend bench.Trend
		var told []string
		worse := func() (all []bench.Change) {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				events, err := tx.Events(ctx, core.EventsOf{Limit: 1000})
				if err != nil {
					return err
				}
				told = nil
				for _, e := range events {
					if e.Type != "benchmark.changed" {
						continue
					}
					told = append(told, e.Machine+"/"+e.Cluster+": "+e.Text)
				}
				trends, err := bench.History(ctx, tx, bench.TrendsOf{Scope: bench.Scope{Machine: "m1"}, Class: "local",
					Quantity: "q"})
				if err != nil || len(trends) != 1 {
					return fmt.Errorf("%d trends: %w", len(trends), err)
				}
				trend = trends[0]
				all, err = bench.Standing(ctx, tx, "")
				return err
			})
			return all
		}
		standing := worse()
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			of, err := bench.Standing(ctx, tx, "m1")
			if none, other := bench.Standing(ctx, tx, "m2"); len(of) != 1 || len(none) != 0 || other != nil {
				t.Errorf("%+v, %+v, %v", of, none, other)
			}
			return err
		})
		if len(told) != 2 || !strings.HasPrefix(told[0]+told[1], "/hello: cluster hello: q of a is 15 % lower since ") ||
			!strings.Contains(told[1], "m1/hello: machine m1: q of a is 30 % lower since ") ||
			!strings.HasSuffix(told[1], "(run r9); what else changed then: n1: kernel is 6.12, was 6.1") ||
			!strings.HasSuffix(told[0], "n1: kernel is 6.12, was 6.1; n2: machine is m2, was m3") {
			t.Errorf("%q", told)
		}
		if len(trend.Points) != 13 || len(trend.Changes) != 1 || trend.Points[12].Value != 70 {
			t.Fatalf("%+v", trend)
		}
		c := trend.Changes[0]
		if c.Run != "r9" || c.Was != 100 || c.Became != 70 || !c.Worse() {
			t.Errorf("%+v", c)
		}
		if again, is := trend.Drift(); is {
			t.Errorf("it is told twice: %+v", again)
		}
		if len(standing) != 2 {
			t.Errorf("%+v", standing)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return bench.Accept(ctx, tx, c, "ada") })
		standing = worse()
		if len(standing) != 1 || standing[0].Whose() != "cluster hello" || trend.Changes[0].Accepted != "ada" {
			t.Errorf("%+v", standing)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			c, err := kinds.Count(ctx, tx)
			if c.Worse.N != 1 {
				t.Errorf("%d are counted", c.Worse.N)
			}
			if _, err := tx.Exec(ctx, `DELETE FROM benchmark WHERE id = 'r9'`); err != nil {
				return err
			}
			return err
		})
		if standing = worse(); len(standing) != 0 || len(trend.Changes) != 0 || len(trend.Points) != 12 {
			t.Errorf("a run that is forgotten leaves %+v, %+v", standing, trend)
		}
	})
}

// TestWhatWasComparedWithOthersIsTheSites: a change in which a run of another cluster had a part is told to no project.
func TestWhatWasComparedWithOthersIsTheSites(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	p := planOf(t, 1, "run: echo n1 70; echo n2 100\n"+readsNodes)
	kindstest.AddMachines(t, s, 3)
	runBench(t, s, p)
	r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return earlierRuns(ctx, tx, p, "another") })
	endTask(t, s, r.Task, protocol.TaskOK, runJob(t, s, r.Task), "n1", "n2")
	awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
	told := map[string]string{}
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 1000})
		for _, e := range events {
			if e.Type == "benchmark.changed" {
				whose, _, _ := strings.Cut(e.Text, ":")
				told[whose] = e.Project + "/" + e.Cluster
			}
		}
		return err
	})
	if told["machine m1"] != "/" || told["class local"] != "/" || told["cluster hello"] != "default/hello" || len(told) != 3 {
		t.Errorf("%v", told)
	}
}

// earlierRuns are twelve. The last three have measured less on m1: n1 has another kernel since, and n2 is another machine.
// The first of them was on a cluster of its own, perhaps.
func earlierRuns(ctx context.Context, tx *core.Tx, p bench.Plan, first string) error {
	if _, err := tx.Exec(ctx, `UPDATE machine SET name = id`); err != nil {
		return err
	}
	for i, name := range []string{"n1", "n2"} {
		if err := kindstest.AddNode(ctx, tx, name, "c1", name, i+1, fmt.Sprint("m", i+1)); err != nil {
			return err
		}
	}
	for i := range 12 {
		r := bench.Run{ID: fmt.Sprint("r", i), Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada", Plan: p}
		if i == 0 {
			r.ClusterID = first
		}
		slow, kernel, second := 100.0, "6.1", "m3"
		if i >= 9 {
			slow, kernel, second = 70, "6.12", "m2"
		}
		sample := func(node string, value float64) recipe.Sample {
			return recipe.Sample{Quantity: "q", Node: node, Value: value, Unit: "GB/s", Better: recipe.Higher}
		}
		o := bench.Round{State: "ok", Nodes: map[string]string{"n1": "m1", "n2": second}, Ended: time.UnixMilli(int64(i)),
			Looks: bench.Looks{Before: round.Look{"n1": {"kernel": kernel, "stat": fmt.Sprint(i)}, "n2": {"kernel": "6.1"}},
				After: round.Look{"n1": {"stat": "9"}}},
			Steps: []bench.Step{{State: bench.StepOK, Samples: []recipe.Sample{sample("n1", slow), sample("n2", 100)}}}}
		measured, err := bench.MeasuredBy(p, []bench.Round{o}, bench.On{Class: "local"})
		if err == nil {
			err = bench.Add(ctx, tx, r)
		}
		if err == nil {
			err = bench.SaveRound(ctx, tx, r, o)
		}
		if err == nil {
			err = bench.SavePoints(ctx, tx, r, o.Ended, measured)
		}
		if err == nil {
			err = bench.End(ctx, tx, r, bench.OK)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestWhatIsFollowedOfARunIsBounded: its output says how many quantities there are, and a head when they were measured.
func TestWhatIsFollowedOfARunIsBounded(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	reads := ""
	for k := 1; k <= 5; k++ { // of one quantity, 500 values of a step are read
		reads += fmt.Sprintf("  - {quantity: q%d, lines: '^%d (?P<size>\\d+) (?P<value>\\d+)$', unit: s, better: lower}\n", k, k)
	}
	p := planOf(t, 1, `run: 'for k in 1 2 3 4 5; do seq 500 | sed "s/^/$k /; s/$/ 70/"; done'`+"\nread:\n"+reads)
	runBench(t, s, p)
	r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		for i := range 12 {
			value := 100.0
			if i >= 9 {
				value = 70
			}
			o := bench.Round{State: "ok", Ended: time.UnixMilli(int64(i)), Steps: []bench.Step{{State: bench.StepOK}}}
			for size := range 150 {
				o.Steps[0].Samples = append(o.Steps[0].Samples, recipe.Sample{Quantity: "q1", Value: value, Unit: "s",
					Better: recipe.Lower, Labels: map[string]string{"size": fmt.Sprint(size + 1)}})
			}
			measured, err := bench.MeasuredBy(p, []bench.Round{o}, bench.On{})
			earlier := bench.Run{ID: fmt.Sprint("r", i), Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada",
				Plan: p}
			if err == nil {
				err = bench.Add(ctx, tx, earlier)
			}
			if err == nil {
				err = bench.SavePoints(ctx, tx, earlier, o.Ended, measured)
			}
			if err == nil {
				err = bench.End(ctx, tx, earlier, bench.OK)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	output := runJob(t, s, r.Task)
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE task SET phase = 'running' WHERE id = $1`, r.Task); err != nil {
			return err
		}
		if _, err := task.KeepOutput(ctx, tx, "c1", r.Task, 0, output); err != nil {
			return err
		}
		row, err := task.Get(ctx, tx, r.Task)
		if err != nil {
			return err
		}
		later := time.Now().AddDate(70, 0, 0)
		return task.End(ctx, tx, row, task.Said{Stage: protocol.TaskEnded, Outcome: protocol.TaskOK, Nodes: []string{"n1"},
			Began: later, Ended: later.Add(time.Second)})
	})
	awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
		changes, err := bench.Changes(ctx, tx, nil, 1000)
		if err != nil {
			return err
		}
		rounds, err := bench.Rounds(ctx, tx, "b1")
		if err != nil {
			return err
		}
		points := 0
		err = tx.Row(ctx, `SELECT COUNT(*) FROM benchmark_point WHERE benchmark_id = 'b1'`).Scan(&points)
		if len(changes) != 100 || points != 2000 || rounds[0].Ended.After(time.Now()) {
			t.Errorf("%d changes, %d points, measured at %s", len(changes), points, rounds[0].Ended)
		}
		return err
	})
}

// TestAWatchIsARunThatIsRepeated, on nodes that are free, until somebody ends it.
func TestAWatchIsARunThatIsRepeated(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 2)
		p := planOf(t, 1, "run: echo q 1\n"+readsQ)
		p.Queue = "main"
		begin := time.Now().Add(-40 * time.Minute)
		watched := bench.Run{ID: "w1", Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada", Plan: p,
			Every: time.Hour, Begin: begin}
		runBench(t, s, p)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := bench.WantEnd(ctx, tx, "b1"); err != nil {
				return err
			}
			return bench.Add(ctx, tx, watched)
		})
		list := func() (all []bench.Run) {
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				all, err = bench.List(ctx, tx, bench.Of{Cluster: "c1", Limit: 10})
				return err
			})
			return slices.DeleteFunc(all, func(r bench.Run) bool { return r.ID == "b1" })
		}
		await := func(what string, so func([]bench.Run) bool) []bench.Run {
			t.Helper()
			for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				if all := list(); so(all) {
					return all
				} else if time.Now().After(end) {
					t.Fatalf("waited in vain: %s; there are %+v", what, all)
				}
			}
		}
		set := func(statements ...string) {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				for _, statement := range statements {
					if _, err := tx.Exec(ctx, statement); err != nil {
						return fmt.Errorf("%s: %w", statement, err)
					}
				}
				return nil
			})
		}
		later := await("it is left out while the cluster is not ready", func(all []bench.Run) bool {
			return all[0].Begin.After(time.Now())
		})
		if at := begin.Add(time.Hour); later[0].Begin.Sub(at).Abs() > time.Second || later[0].Phase != core.Pending {
			t.Errorf("%+v, not at %s", later, at)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			for i, name := range []string{"n1", "n2"} {
				if err := kindstest.AddNode(ctx, tx, name, "c1", name, i+1, fmt.Sprint("m", i+1)); err != nil {
					return err
				}
			}
			return nil
		})
		set(`UPDATE cluster SET phase = 'ready'`, `UPDATE node SET phase = 'ready'`,
			`INSERT INTO observed (node_id, boot, seen_at, revision, checks, facts, idle_at) VALUES ('n1', 1, 1, 1, '[]', '{}', 1)`,
			`UPDATE benchmark SET begin_at = now_ms(), wake_at = now_ms() WHERE id = 'w1'`)
		await("it waits for a second node", func(all []bench.Run) bool {
			return all[0].Reason == "waits: 1 of the 2 nodes that it takes are free"
		})
		set(`INSERT INTO observed (node_id, boot, seen_at, revision, checks, facts, idle_at) VALUES ('n2', 1, 1, 1, '[]', '{}', 1)`,
			`UPDATE benchmark SET wake_at = now_ms() WHERE id = 'w1'`)
		running := await("a round begins", func(all []bench.Run) bool { return all[0].Task != "" })
		endTask(t, s, running[0].Task, protocol.TaskCancelled, nil) // a user who ends its job ends this run, and not the watch
		both := await("the next one waits", func(all []bench.Run) bool { return len(all) == 2 && all[0].Reason != "" })
		if next := both[0]; next.Phase != core.Pending || next.Every != time.Hour ||
			next.Begin.Sub(running[0].Begin) != time.Hour || next.Plan.Mark == p.Mark || next.Plan.Seed == p.Seed ||
			both[1].Outcome != bench.Cancelled || !strings.HasPrefix(next.Reason, "begins at ") {
			t.Errorf("%+v", both)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return bench.EndWatch(ctx, tx, "c1", "some") })
		await("it ends", func(all []bench.Run) bool { return all[0].Outcome == bench.Cancelled })
		time.Sleep(100 * time.Millisecond)
		if all := list(); len(all) != 2 {
			t.Errorf("another follows: %+v", all)
		}
	})
}
