package kinds_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/bench/recipe"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/bench/benchlife"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/task"
	"muster/internal/noded/protocol"
)

// planOf is a plan of recipes whose names are their places.
func planOf(t *testing.T, rounds int, recipes ...string) bench.Plan {
	t.Helper()
	p := bench.Plan{Suite: recipe.Suite{Name: "some"}, Recipes: map[string]*recipe.Recipe{},
		Nodes: recipe.Nodes{Nodes: 2, Cores: 1}, Rounds: rounds, Seed: 7, Mark: "m4rkm4rk"}
	for i, text := range recipes {
		name := string(rune('a' + i))
		r, err := recipe.Parse(name+".yaml", []byte("recipe: "+name+"\nabout: a test\nseconds: 1\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		p.Recipes[name] = r
		p.Suite.Entries = append(p.Suite.Entries, recipe.Entry{Recipe: name})
	}
	return p
}

const readsQ = "read: [{quantity: q, lines: '^q (?P<value>.*)', unit: s, better: lower}]\n"

// runBench has the life of runs go on until the test ends, and a run in it.
func runBench(t *testing.T, s *core.Store, p bench.Plan) {
	t.Helper()
	kindstest.AddCluster(t, s, "c1", "hello")
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		return bench.Add(ctx, tx, bench.Run{ID: "b1", Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada",
			Plan: p})
	})
	tables := []core.Table{benchlife.Table(life.Deps{DB: s})}
	e := core.NewEngine(s, "test", tables, telemetry.New("test"), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
}

// awaitRun waits until a run is so.
func awaitRun(t *testing.T, s *core.Store, what string, so func(bench.Run) bool) (r bench.Run) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
			r, err = bench.Get(ctx, tx, "b1")
			return err
		})
		switch {
		case so(r):
			return r
		case time.Now().After(end):
			t.Fatalf("waited in vain: %s; the run is %+v", what, r)
		}
	}
}

// endTask ends a task as a head does, with what it has written.
func endTask(t *testing.T, s *core.Store, id string, how protocol.TaskOutcome, output []byte) {
	t.Helper()
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE task SET phase = 'running' WHERE id = $1`, id); err != nil {
			return err
		}
		if _, err := task.KeepOutput(ctx, tx, "c1", id, 0, output); err != nil {
			return err
		}
		row, err := task.Get(ctx, tx, id)
		if err != nil {
			return err
		}
		return task.End(ctx, tx, row, task.Said{Stage: protocol.TaskEnded, Outcome: how, Text: "so it is", Nodes: []string{"n1"},
			Began: time.Unix(1, 0), Ended: time.Unix(2, 0)})
	})
}

// runJob runs the script of a task here.
func runJob(t *testing.T, s *core.Store, id string) []byte {
	t.Helper()
	var row task.Task
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
		row, err = task.Get(ctx, tx, id)
		return err
	})
	if row.Account != "ada" || !row.Work.Whole || row.Work.Nodes != 2 || row.Work.Limit < time.Minute {
		t.Errorf("the task of a round: %+v", row)
	}
	c := exec.Command("bash", "-s")
	c.Stdin, c.Env = strings.NewReader(row.Work.Script), append(os.Environ(), "HOME="+t.TempDir())
	output, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return output
}

func TestARunIsRoundAfterRound(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		runBench(t, s, planOf(t, 2, "run: echo q 1.5\n"+readsQ, "run: echo q 2; exit 3\n"+readsQ,
			"run: echo q FAILED\nvalid: [{none: FAILED}]\n"+readsQ, "needs: {nodes: 3}\nrun: echo\n"+readsQ,
			"needs: {programs: [no-such-program]}\nrun: echo\n"+readsQ))
		for round := range 2 {
			r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Round == round && r.Task != "" })
			endTask(t, s, r.Task, protocol.TaskOK, runJob(t, s, r.Task))
		}
		r := awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
		if r.Outcome != bench.Incomplete || r.Round != 2 || r.Task != "" {
			t.Errorf("%+v", r)
		}
		var rounds []bench.Round
		var output recipe.Output
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
			if rounds, err = bench.Rounds(ctx, tx, "b1"); err != nil {
				return err
			}
			output, err = bench.OutputOf(ctx, tx, "b1", 1, 1)
			return err
		})
		if len(rounds) != 2 || output[""] != "q 2\n" {
			t.Fatalf("%+v, %q", rounds, output)
		}
		for _, o := range rounds {
			got := map[int]string{}
			for _, step := range o.Steps {
				got[step.Number] = string(step.State) + " " + step.Why
			}
			want := map[int]string{0: "ok ", 1: "failed exit status 3: q 2",
				2: "invalid q: FAILED is no number, in the line q FAILED; it says FAILED",
				3: "skipped it needs 3 nodes, and there are 2", 4: "skipped there is no program no-such-program"}
			if diff := cmp.Diff(want, got); diff != "" || o.State != "ok" || len(o.Nodes) != 1 {
				t.Errorf("%+v: %s", o, diff)
			}
			if v := o.Steps[0].Samples; len(v) != 1 || v[0].Value != 1.5 || v[0].Unit != "s" {
				t.Errorf("%+v", v)
			}
		}
	})
}

func TestARunWhoseJobIsLostGoesOn(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		runBench(t, s, planOf(t, 2, "run: echo q 1\n"+readsQ, "run: echo q 2\n"+readsQ))
		r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
		endTask(t, s, r.Task, protocol.TaskLost, []byte("\n@m4rkm4rk begin 1\nq 2"))
		r = awaitRun(t, s, "the next one begins", func(r bench.Run) bool { return r.Round == 1 && r.Task != "" })
		endTask(t, s, r.Task, protocol.TaskOK, runJob(t, s, r.Task))
		r = awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
		if r.Outcome != bench.Incomplete {
			t.Errorf("%+v", r)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			rounds, err := bench.Rounds(ctx, tx, "b1")
			if len(rounds) == 2 {
				first := rounds[0].Steps
				if first[0].State != bench.StepNotRun || first[1].State != bench.StepLost || first[1].Why !=
					"its job ended meanwhile: lost: so it is" || rounds[1].Steps[1].State != bench.StepOK {
					t.Errorf("%+v", rounds)
				}
			}
			return err
		})
	})
}

func TestARunIsCancelledWithItsTask(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		runBench(t, s, planOf(t, 5, "run: echo q 1\n"+readsQ))
		r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return bench.WantEnd(ctx, tx, "b1") })
		for asked := false; !asked; time.Sleep(20 * time.Millisecond) {
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
				row, err := task.Get(ctx, tx, r.Task)
				asked = row.Cancel
				return err
			})
		}
		endTask(t, s, r.Task, protocol.TaskCancelled, nil)
		r = awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
		if r.Outcome != bench.Cancelled || r.Round != 1 {
			t.Errorf("%+v", r)
		}
	})
}
