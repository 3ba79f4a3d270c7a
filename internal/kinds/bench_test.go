package kinds_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/bench/recipe"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/bench/benchlife"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
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

// runBench has the life of runs go on until the test ends, and a run in it, called b1, beside others.
func runBench(t *testing.T, s *core.Store, p bench.Plan, others ...bench.Run) {
	t.Helper()
	addBench(t, s, p, others...)
	startBench(t, s)
}

// addBench adds cluster c1 and a run on it, called b1, beside others.
func addBench(t *testing.T, s *core.Store, p bench.Plan, others ...bench.Run) {
	t.Helper()
	kindstest.AddCluster(t, s, "c1", "hello")
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		r := bench.Run{ID: "b1", Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada", Plan: p}
		for _, o := range others {
			r.Peer = o.ID
			if err := bench.Add(ctx, tx, o); err != nil {
				return err
			}
		}
		return bench.Add(ctx, tx, r)
	})
}

// startBench has the life of runs go on until the test ends, with what is at external clusters, if anything is.
func startBench(t *testing.T, s *core.Store, external ...life.External) {
	t.Helper()
	d := life.Deps{DB: s, Calls: life.Calling()}
	for _, d.External = range external {
	}
	tables := []core.Table{benchlife.Table(d)}
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

// endTask ends a task as a head does, with what it has written. It ran on node n1, if no others are named.
func endTask(t *testing.T, s *core.Store, id string, how protocol.TaskOutcome, output []byte, nodes ...string) {
	t.Helper()
	if len(nodes) == 0 {
		nodes = []string{"n1"}
	}
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
		return task.End(ctx, tx, row, task.Said{Stage: protocol.TaskEnded, Outcome: how, Text: "so it is", Nodes: nodes,
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
	// how the host of the test fares is not what is tested
	return regexp.MustCompile(`(?m)^@m4rkm4rk look.*\n`).ReplaceAll(output, nil)
}

// TestOfWhatAStepWritesTheFirstIsKept: of what its command says, and of the files that its recipe reads.
func TestOfWhatAStepWritesTheFirstIsKept(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	runBench(t, s, planOf(t, 1, "run: echo\nread: [{quantity: q, from: out, lines: '(?P<value>.*)', unit: s, better: lower}]\n"))
	r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
	file := func(name string) string {
		return "\n@m4rkm4rk file 0 " + name + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("1\n"), 1<<20))
	}
	endTask(t, s, r.Task, protocol.TaskOK, []byte("\n@m4rkm4rk begin 0\n"+strings.Repeat("long ", 1<<18)+file("out")+
		file("other")+"\n@m4rkm4rk end 0 0 1 2\n"))
	awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
		output, err := bench.OutputOf(ctx, tx, "b1", 0, 0)
		if len(output) != 2 || len(output[""]) != 1<<20 || len(output["out"]) != 1<<20 {
			t.Errorf("%d texts, of %d and %d bytes", len(output), len(output[""]), len(output["out"]))
		}
		return err
	})
}

// TestATextThatWasNotKeptWholeIsNoNumber: what is there of it is kept, for people to read.
func TestATextThatWasNotKeptWholeIsNoNumber(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	runBench(t, s, planOf(t, 1, "run: echo q 123\n"+readsQ))
	r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
	endTask(t, s, r.Task, protocol.TaskOK, []byte("\n@m4rkm4rk begin 0\nq 12\n@m4rkm4rk end 0 0 1 2\n\n@m4rkm4rk unkept 0\n"))
	awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
		rounds, err := bench.Rounds(ctx, tx, "b1")
		if err != nil {
			return err
		}
		step := rounds[0].Steps[0]
		output, err := bench.OutputOf(ctx, tx, "b1", 0, 0)
		if step.State != bench.StepInvalid || !strings.Contains(step.Why, "the disk of /home may be full") ||
			len(step.Samples) != 0 || output[""] != "q 12" {
			t.Errorf("%+v of %q", step, output)
		}
		return err
	})
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
			problems, err := bench.Problems(ctx, tx, "b1", 20)
			var states []bench.State
			for _, o := range problems {
				states = append(states, o.Steps[0].State)
			}
			want := []bench.State{"failed", "invalid", "failed", "invalid", "skipped", "skipped"}
			if !slices.Equal(states, want) {
				t.Errorf("problems are %v, %v", states, err)
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

func TestARunOfWhichNothingCanRunSaysWhy(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	runBench(t, s, planOf(t, 1, "needs: {files: [/sys/class/no-such/*]}\nrun: echo\n"+readsQ))
	r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
	endTask(t, s, r.Task, protocol.TaskOK, runJob(t, s, r.Task))
	r = awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
	if r.Outcome != bench.Incomplete || !strings.Contains(r.Reason, "there is no file /sys/class/no-such/*") {
		t.Errorf("%s: %s", r.Outcome, r.Reason)
	}
}

// disturbed is what a job writes one of whose nodes was throttled: "n2 throttled 4", and then 7.
const disturbed = "\n@m4rkm4rk look bjIgdGhyb3R0bGVkIDQK\n\n@m4rkm4rk look bjIgdGhyb3R0bGVkIDcK\n"

// TestARoundWhoseJobIsLostIsDoneAnew, and one that was disturbed: all attempts are kept, and these count nowhere.
func TestARoundWhoseJobIsLostIsDoneAnew(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		runBench(t, s, planOf(t, 1, "run: echo q 1\n"+readsQ, "run: echo q 2\n"+readsQ))
		r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
		kindstest.AddMachines(t, s, 1)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(kindstest.AddNode(ctx, tx, "k1", "c1", "n1", 1, "m1"), host.NoteFailure(ctx, tx, "k1"))
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { // as it is by its name
			_, err := tx.Exec(ctx, `UPDATE node SET machine = 'local-1'`)
			return err
		})
		endTask(t, s, r.Task, protocol.TaskLost, []byte("\n@m4rkm4rk begin 1\nq 2"))
		r = awaitRun(t, s, "the next one begins", func(r bench.Run) bool { return r.Round == 1 && r.Task != "" })
		endTask(t, s, r.Task, protocol.TaskOK, append(runJob(t, s, r.Task), disturbed...))
		r = awaitRun(t, s, "the next one begins", func(r bench.Run) bool { return r.Round == 2 && r.Task != "" })
		endTask(t, s, r.Task, protocol.TaskOK, runJob(t, s, r.Task))
		r = awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
		if r.Outcome != bench.OK || r.Round != 3 || r.Broken != 2 {
			t.Errorf("%+v", r)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			rounds, err := bench.Rounds(ctx, tx, "b1")
			if len(rounds) == 3 {
				first := rounds[0].Steps
				if rounds[0].Why != "n1 was lost: so it is" || !rounds[0].Broken() || first[0].State != bench.StepNotRun ||
					first[1].State != bench.StepLost || first[1].Why != "its job ended meanwhile: lost: n1 was lost: so it is" ||
					rounds[1].Steps[1].State != bench.StepOK || rounds[1].Disturbed != "n2 was throttled 3 times" {
					t.Errorf("%+v", rounds)
				}
			}
			if err != nil {
				return err
			}
			looks, err := bench.LooksOf(ctx, tx, "b1", 1)
			if looks.Before["n2"]["throttled"] != "4" || looks.After["n2"]["throttled"] != "7" {
				t.Errorf("%+v", looks)
			}
			return err
		})
	})
}

// TestAShortenedFormRunsOnceWhateverHappensBesideIt: its values show how fast nothing is.
func TestAShortenedFormRunsOnceWhateverHappensBesideIt(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	p := planOf(t, 1, "run: echo q 1\n"+readsQ)
	p.Suite.Brief = true
	runBench(t, s, p)
	r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
	endTask(t, s, r.Task, protocol.TaskOK, append(runJob(t, s, r.Task), disturbed...))
	r = awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
	if r.Outcome != bench.OK || r.Round != 1 || r.Broken != 0 {
		t.Errorf("%+v", r)
	}
}

// TestRunsTakeTurns: of two runs beside each other only one has a job at a time. A pair whose one round is lost is done again by
// both, and when one run ends early the other does not wait for it.
func TestRunsTakeTurns(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		p := planOf(t, 2, "run: echo q 1\n"+readsQ)
		other := bench.Run{ID: "b2", Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada", Plan: p, Peer: "b1"}
		other.Plan.Second = true
		runBench(t, s, p, other)
		jobs, lost := 0, false
		step := func() (both [2]bench.Run) {
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				for i, id := range []string{"b1", "b2"} {
					if both[i], err = bench.Get(ctx, tx, id); err != nil {
						return err
					}
				}
				return nil
			})
			if both[0].Task != "" && both[1].Task != "" {
				t.Fatal("both measure at once")
			}
			return both
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			both := step()
			if both[0].Phase == bench.Ended && both[1].Phase == bench.Ended {
				if both[0].Round != 3 || both[1].Round != 3 || both[0].Outcome != bench.OK || both[1].Outcome != bench.OK ||
					jobs != 6 {
					t.Errorf("after %d jobs: %+v", jobs, both)
				}
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%+v", both)
			}
			for i, r := range both {
				if r.Task == "" {
					continue
				}
				how := protocol.TaskOK
				if i == 1 && r.Round == 1 && !lost {
					how, lost = protocol.TaskLost, true
				}
				endTask(t, s, r.Task, how, runJob(t, s, r.Task))
				jobs++
				for step()[i].Task == r.Task {
					time.Sleep(10 * time.Millisecond)
				}
			}
		}
	})
}

// TestARunDoesNotWaitForOneThatHasEnded: neither for ever nor for what is forgotten.
func TestARunDoesNotWaitForOneThatHasEnded(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	p := planOf(t, 2, "run: echo q 1\n"+readsQ)
	runBench(t, s, p, bench.Run{ID: "b2", Project: "default", ClusterID: "gone", Cluster: "gone", Account: "ada", Plan: p,
		Peer: "b1"})
	r := awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
	if r.Outcome != bench.Incomplete || !strings.Contains(r.Reason, "has ended after 0 rounds") {
		t.Errorf("%+v", r)
	}
}

// TestARunGivesUp: a job that cannot run at all is not tried for ever, and it is said what it came to.
func TestARunGivesUp(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	runBench(t, s, planOf(t, 1, "run: echo q 1\n"+readsQ))
	for attempt := range 4 {
		r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Round == attempt && r.Task != "" })
		endTask(t, s, r.Task, protocol.TaskFailed, []byte("mktemp: no space left on device\n"))
	}
	r := awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
	if want := "0 of 1 rounds came to their end undisturbed: so it is: mktemp"; r.Outcome != bench.Incomplete || !strings.Contains(r.Reason, want) {
		t.Errorf("%+v", r)
	}
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
		bad, err := bench.Problems(ctx, tx, "b1", 2)
		if len(bad) != 2 || bad[1].Number != 1 || !strings.Contains(bad[0].Steps[0].Why, "mktemp: no space left on device") {
			t.Errorf("%+v", bad)
		}
		return err
	})
}

// TestAUsersCancelledJobEndsTheRun: a user who ends a round's job by hand gets no other.
func TestAUsersCancelledJobEndsTheRun(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	runBench(t, s, planOf(t, 5, "run: echo q 1\n"+readsQ))
	r := awaitRun(t, s, "a round begins", func(r bench.Run) bool { return r.Task != "" })
	endTask(t, s, r.Task, protocol.TaskCancelled, nil)
	r = awaitRun(t, s, "it ends", func(r bench.Run) bool { return r.Phase == bench.Ended })
	if r.Outcome != bench.Cancelled || r.Round != 1 {
		t.Errorf("%+v", r)
	}
}

// TestWhatRunsKeepIsBounded: a run that measures without end keeps what fits, and says so; a project keeps its newest runs.
func TestWhatRunsKeepIsBounded(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddCluster(t, s, "c1", "hello")
		run := bench.Run{ID: "b1", Project: "default", ClusterID: "c1", Cluster: "hello", Account: "ada",
			Plan: planOf(t, 1, "run: echo q 1\n"+readsQ)}
		noise := make([]byte, 3<<19)
		_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return bench.Add(ctx, tx, run) })
		for number := range 3 {
			step := bench.Step{State: bench.StepOK, Output: recipe.Output{"": base64.StdEncoding.EncodeToString(noise)},
				Samples: []recipe.Sample{{Quantity: "q", Better: recipe.Higher}}}
			if number == 2 {
				step.Samples[0].Node = strings.Repeat("n", 3<<20)
			}
			o := bench.Round{Number: number, State: "ok", Steps: []bench.Step{step}}
			if number == 2 {
				o.Nodes = map[string]string{strings.Repeat("n", 3<<20): "m"}
			}
			if err := o.Pack(); err != nil {
				t.Fatal(err)
			}
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				r, err := bench.Get(ctx, tx, run.ID)
				if err != nil {
					return err
				}
				return bench.SaveRound(ctx, tx, r, o)
			})
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			r, err := bench.Get(ctx, tx, run.ID)
			if err != nil {
				return err
			}
			rounds, err := bench.Rounds(ctx, tx, run.ID)
			if err != nil {
				return err
			}
			second, err := bench.OutputOf(ctx, tx, run.ID, 1, 0)
			if err != nil {
				return err
			}
			one, other := rounds[1].Steps[0], rounds[2].Steps[0]
			if r.Kept > 4<<20 || len(second) != 0 || one.State != bench.StepOK || len(one.Samples) != 1 ||
				other.State != bench.StepInvalid || len(other.Samples) != 0 || len(rounds[2].Nodes) != 0 {
				t.Errorf("%d bytes: %d outputs, %+v, %+v", r.Kept, len(second), one, other.State)
			}
			return nil
		})
		var ids []string
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			for i := range 6 {
				if run.ID = fmt.Sprint("c", i); bench.Add(ctx, tx, run) != nil || bench.End(ctx, tx, run, bench.OK) != nil {
					return fmt.Errorf("run %d", i)
				}
				if _, err := tx.Exec(ctx, `UPDATE benchmark SET created_at = $2, kept = $3 WHERE id = $1`, run.ID, i, 15<<20); err != nil {
					return err
				}
			}
			run.ID = "last"
			if err := bench.Add(ctx, tx, run); err != nil {
				return err
			}
			runs, err := bench.List(ctx, tx, bench.Of{Cluster: "hello", Limit: 100})
			for _, r := range runs {
				ids = append(ids, r.ID)
			}
			return err
		})
		if want := "b1 c2 c3 c4 c5 last"; strings.Join(slices.Sorted(slices.Values(ids)), " ") != want {
			t.Errorf("kept are %v, not %s", ids, want)
		}
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
