package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/api"
	"muster/internal/bench/recipe"
	"muster/internal/bench/round"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
)

const someRecipe = `recipe: some
about: It tells numbers
seconds: 2
parameters: {size: [1, 2]}
run: echo
read: [{quantity: speed, lines: '^(?P<node>\S+) (?P<value>\S+)$', unit: s, better: lower}]
`

// planned is a plan of one recipe with two steps.
func planned(t *testing.T) bench.Plan {
	t.Helper()
	r, err := recipe.Parse("some.yaml", []byte(someRecipe))
	if err != nil {
		t.Fatal(err)
	}
	return bench.Plan{Suite: recipe.Suite{Name: "some", Entries: []recipe.Entry{{Recipe: "some"}}},
		Recipes: map[string]*recipe.Recipe{"some": r}, Nodes: recipe.Nodes{Nodes: 1, Cores: 1}, Rounds: 6, Mark: "m4rkm4rk"}
}

// withNode is the site of tenants whose cluster aero/cfd has a node with four cores that the scheduler knows.
func withNode(t *testing.T, changes ...func(*api.API)) (ask func(method, path, body, who string) reply, db *core.Store) {
	t.Helper()
	s, db := server(t, 8, changes...)
	tenants(t, db)
	update(t, db, func(ctx context.Context, tx *core.Tx) error {
		n := node.Node{ID: "n-aero", Cluster: "c-aero", Name: "n1", Role: protocol.Compute, Queue: "cpu", Class: "local",
			MachineID: "m1", Machine: "m1"}
		if err := cluster.AddSeat(ctx, tx, "c-aero", cluster.Seat{Name: "n1", Slot: 1}); err != nil {
			return err
		}
		if err := node.Add(ctx, tx, n); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO observed (node_id, boot, seen_at, revision, checks, facts, scheduler)
			VALUES ('n-aero', 1, 1, 1, '[]', '{}', $1)`, `{"name": "n1", "state": "free", "responding": true,
			"size": {"cpus": 8, "threads": 2, "memory_mib": 4096}}`)
		return err
	})
	return func(method, path, body, who string) reply {
		return call(t, s, method, path, body, "Authorization", "Bearer "+who)
	}, db
}

func update(t *testing.T, db *core.Store, f func(context.Context, *core.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

func read[T any](t *testing.T, got reply) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(got.text), &v); err != nil || got.status >= 300 {
		t.Fatal(err, got)
	}
	return v
}

// TestSuitesAreListedForACluster: what cannot run there is said, and a recipe of the site's own can be run alone.
func TestSuitesAreListedForACluster(t *testing.T) {
	own := fstest.MapFS{"some.yaml": {Data: []byte(someRecipe)}}
	ask, _ := withNode(t, func(a *api.API) { a.Recipes = own })
	list := read[apiv1.List[apiv1.Suite]](t, ask("GET", "/v1/suites?cluster=aero/cfd", "", "viewer"))
	seen := map[string]apiv1.Suite{}
	for _, s := range list.Items {
		seen[s.Name] = s
		if want := (apiv1.BenchmarkNodes{Nodes: 1, Cores: 4, MemoryMiB: 4096}); s.On != want {
			t.Errorf("%+v", s.On)
		}
	}
	if s := seen["some"]; !s.Single || s.Recipes[0].Steps != 2 || s.Recipes[0].Seconds != 4 || s.Seconds != 28 {
		t.Errorf("%+v", s)
	}
	for _, r := range seen["quick"].Recipes {
		if alone := r.Nodes > 1; alone != (r.Skip == "it needs 2 nodes, and there are 1") || alone != (r.Skipped > 0) {
			t.Errorf("%+v", r)
		}
	}
	if got := ask("GET", "/v1/suites?cluster=aero/cfd&nodes=2", "", "viewer"); got.status != 422 ||
		!strings.Contains(got.text, "has 1 nodes at most") {
		t.Error(got)
	}
	if got := ask("GET", "/v1/suites?cluster=bio/cfd", "", "operator"); got.status != 409 ||
		!strings.Contains(got.text, "no nodes yet that the scheduler knows") {
		t.Error(got)
	}
	own["broken.yaml"] = &fstest.MapFile{Data: []byte("recipe: broken\nsecunds: 1\n")}
	if got := ask("GET", "/v1/suites", "", "viewer"); got.status != 409 || !strings.Contains(got.text, "broken.yaml:2:1") {
		t.Error(got)
	}
}

// TestARunIsTakenAndBounded asks for as many as a project may have at once, in ways that make sense and in others.
func TestARunIsTakenAndBounded(t *testing.T) {
	ask, db := withNode(t)
	const path = "/v1/clusters/aero%2Fcfd/benchmarks"
	one := read[apiv1.Benchmark](t, ask("POST", path, `{"suite": "stream", "rounds": 2}`, "member"))
	if one.Account != "member" || one.Suite != "stream" || one.Rounds != 2 || one.On.Cores != 4 || one.Queue != "cpu" {
		t.Errorf("%+v", one)
	}
	for body, want := range map[string]string{
		`{"suite": "fast"}`:      `422 there is no suite \"fast\"`,
		`{"queue": "gpu"}`:       `422 has no queue \"gpu\"`,
		`{"nodes": 9}`:           `422 queue cpu of cluster cfd has 1 nodes at most`,
		`{"suite": "ping-pong"}`: `422 nothing in it can run on these nodes: it needs 2 nodes`,
		`{"rounds": 101}`:        `422 `,
		`{"sizes": [0]}`:         `422 sizes: a recipe takes one node or more`,
		`{"sizes": [1, 2]}`:      `422 queue cpu of cluster cfd has 1 nodes at most`,

		`{"sizes": [1, 2], "nodes": 1}`: `422 sizes: the largest is 2, and the run is on 1 nodes`,
	} {
		status, text, _ := strings.Cut(want, " ")
		if got := ask("POST", path, body, "member"); fmt.Sprint(got.status) != status || !strings.Contains(got.text, text) {
			t.Errorf("%s: %d %s", body, got.status, got.text)
		}
	}
	brief := read[apiv1.Benchmark](t, ask("POST", path, `{"suite": "dgemm", "brief": true, "sizes": [1]}`, "member"))
	brief = read[apiv1.Benchmark](t, ask("GET", "/v1/benchmarks/"+brief.ID, "", "member"))
	if brief.Rounds != 1 || len(brief.Cautions) != 1 || !strings.Contains(brief.Cautions[0], "shortened") {
		t.Errorf("%+v", brief)
	}
	read[apiv1.Benchmark](t, ask("POST", path, `{}`, "member")) // with that of tenants: four
	if got := ask("POST", path, `{}`, "member"); got.status != 409 || !strings.Contains(got.text, "has 4 benchmarks") {
		t.Error(got)
	}
	if got := ask("POST", path, `{"compare_with": "cfd"}`, "member"); got.status != 409 {
		t.Error(got)
	}
	list := read[apiv1.List[apiv1.Benchmark]](t, ask("GET", "/v1/benchmarks?limit=2", "", "viewer"))
	rest := read[apiv1.List[apiv1.Benchmark]](t, ask("GET", "/v1/benchmarks?cursor="+list.Next, "", "viewer"))
	if len(list.Items) != 2 || len(rest.Items) != 2 || rest.Next != "" {
		t.Errorf("%+v, %+v", list, rest)
	}
	if got := ask("GET", "/v1/benchmarks?cluster=cfd&suite=stream", "", "viewer"); !strings.Contains(got.text, one.ID) {
		t.Error(got)
	}
	cancelled := read[apiv1.Benchmark](t, ask("DELETE", "/v1/benchmarks/"+one.ID, "", "owner"))
	if !cancelled.Cancel {
		t.Errorf("%+v", cancelled)
	}
	update(t, db, func(ctx context.Context, tx *core.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE cluster SET desired = 'deleted' WHERE id = 'c-aero'`)
		return err
	})
	if got := ask("POST", path, `{}`, "member"); got.status != 409 && got.status != 404 {
		t.Error(got)
	}
}

// TestWhatARunHasMeasuredIsShown follows a run from its first step to its end.
func TestWhatARunHasMeasuredIsShown(t *testing.T) {
	ask, db := withNode(t)
	var run bench.Run
	update(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
		if err = task.Add(ctx, tx, task.Task{ID: "t-round", Cluster: "c-aero", Account: "sam",
			Work: task.Work{Script: "x"}}); err != nil {
			return err
		}
		if run, err = bench.Get(ctx, tx, "b-aero"); err != nil {
			return err
		}
		if begun, err := bench.Begin(ctx, tx, run, "t-round"); err != nil || !begun {
			return fmt.Errorf("begun: %v: %w", begun, err)
		}
		if _, err = tx.Exec(ctx, `UPDATE task SET phase = 'running' WHERE id = 't-round'`); err != nil {
			return err
		}
		kept := int64(0)
		for _, piece := range []string{"\n@m4rkm4rk begin 0\n", "\n@m4rkm4rk end 0 0 1 2\n\n@m4rkm4rk begin 1\n"} {
			if kept, err = task.KeepOutput(ctx, tx, "c-aero", "t-round", kept, []byte(piece)); err != nil {
				return err
			}
		}
		said := task.Said{Stage: protocol.TaskRuns, Nodes: []string{"n1"}, Began: time.Now()}
		return task.Save(ctx, tx, "c-aero", "t-round", said)
	})
	b := read[apiv1.Benchmark](t, ask("GET", "/v1/benchmarks/b-aero", "", "viewer"))
	if b.Now == nil || b.Now.Recipe != "some" || b.Now.Parameters["size"] != "2" || b.Left < 30 || b.Left > 45 {
		t.Errorf("%+v of %+v", b.Now, b)
	}
	update(t, db, func(ctx context.Context, tx *core.Tx) error {
		for i := range 7 {
			state, count := bench.StepOK, string(protocol.TaskOK)
			if i == 2 {
				count = string(protocol.TaskLost) // so its values count nowhere
			}
			sample := func(node string, v float64) recipe.Sample {
				return recipe.Sample{Quantity: "speed", Node: node, Value: v, Unit: "s", Better: recipe.Lower}
			}
			o := bench.Round{Number: i, State: count, Nodes: map[string]string{"n1": "m1"}, Began: time.Unix(1, 0),
				Ended: time.Unix(3, 0), Looks: bench.Looks{Before: round.Look{"n1": {"kernel": "6.1"}},
					After: round.Look{"n1": {"load": "1"}}}, Steps: []bench.Step{
					{State: state, Samples: []recipe.Sample{sample("n1", float64(i)), sample("n2", float64(i+2))},
						Output: recipe.Output{"": "said", "file": "more"}},
					{Number: 1, State: bench.StepInvalid, Why: "wrong", Samples: []recipe.Sample{sample("n1", 1e9)}},
				}}
			r, err := bench.Get(ctx, tx, "b-aero")
			if err == nil {
				err = bench.SaveRound(ctx, tx, r, o)
			}
			if err != nil {
				return err
			}
		}
		return bench.End(ctx, tx, run, bench.Incomplete)
	})
	b = read[apiv1.Benchmark](t, ask("GET", "/v1/benchmarks/b-aero", "", "viewer"))
	if b.Steps["ok"] != 6 || b.Steps["invalid"] != 6 || len(b.Problems) != 7 || b.Broken != 1 || b.Ended != 7 || b.Rounds != 7 ||
		b.Problems[0].Why != "wrong" || b.Outcome != apiv1.BenchmarkIncomplete || b.EndedAt == nil || b.Now != nil {
		t.Errorf("%+v", b)
	}
	series := read[apiv1.List[apiv1.BenchmarkSeries]](t, ask("GET", "/v1/benchmarks/b-aero/series", "", "viewer")).Items
	if len(series) != 1 {
		t.Fatalf("%+v", series)
	}
	s := series[0] // rounds 0, 1, 3, 4, 5 and 6, each 1 more than its number
	if s.N != 6 || s.Median != 4.5 || s.Min != 1 || s.Max != 7 || s.Interval == nil || s.Interval.Low != 1 ||
		s.Interval.High != 7 || s.Nodes[0].Node != "n2" || s.Nodes[0].Value != 5.5 || s.Rounds[2].Round != 3 ||
		s.Rounds[2].Samples != 2 || s.Parameters["size"] != "1" {
		t.Errorf("%+v", s)
	}
	steps := read[apiv1.List[apiv1.BenchmarkStep]](t, ask("GET", "/v1/benchmarks/b-aero/steps?limit=5", "", "viewer"))
	if len(steps.Items) != 5 || steps.Next == "" || !steps.Items[4].Broken || len(steps.Items[0].Samples) != 2 {
		t.Errorf("%+v", steps)
	}
	rounds := read[apiv1.List[apiv1.BenchmarkRound]](t, ask("GET", "/v1/benchmarks/b-aero/rounds?limit=3", "", "viewer"))
	if o := rounds.Items; len(o) != 2 || !o[1].Counts || o[0].Nodes["n1"] != "m1" || // a page has no more
		o[0].Before["n1"]["kernel"] != "6.1" || o[0].After["n1"]["load"] != "1" || rounds.Next == "" {
		t.Errorf("%+v", rounds)
	}
	rounds = read[apiv1.List[apiv1.BenchmarkRound]](t, ask("GET", "/v1/benchmarks/b-aero/rounds?cursor="+rounds.Next, "",
		"viewer"))
	if o := rounds.Items; len(o) != 2 || o[0].Round != 2 || o[0].Counts {
		t.Errorf("%+v", rounds)
	}
	if got := ask("GET", "/v1/benchmarks/b-aero/output?round=1&step=0", "", "member"); got.status != 403 {
		t.Error(got)
	}
	out := read[apiv1.BenchmarkOutput](t, ask("GET", "/v1/benchmarks/b-aero/output?round=1&step=0", "", "sam"))
	if out.Text != "said" || out.Files["file"] != "more" || len(out.Files) != 1 {
		t.Errorf("%+v", out)
	}
}

// TestTwoClustersAreComparedInTurns: both runs are made, or none, and what each has measured is seen beside the other's.
func TestTwoClustersAreComparedInTurns(t *testing.T) {
	ask, db := withNode(t)
	const path = "/v1/clusters/aero%2Fcfd/benchmarks"
	if got := ask("POST", path, `{"suite": "stream", "compare_with": "bio/cfd"}`, "member"); got.status != 404 {
		t.Error(got)
	}
	one := read[apiv1.Benchmark](t, ask("POST", path, `{"suite": "stream", "compare_with": "aero/cfd"}`, "member"))
	other := read[apiv1.Benchmark](t, ask("GET", "/v1/benchmarks/"+one.Peer, "", "member"))
	if one.Peer == "" || other.Peer != one.ID || other.Suite != "stream" {
		t.Fatalf("%+v, %+v", one, other)
	}
	update(t, db, func(ctx context.Context, tx *core.Tx) error {
		for i := range 7 {
			for side, id := range []string{one.ID, other.ID} {
				r, err := bench.Get(ctx, tx, id)
				if err != nil {
					return err
				}
				v := recipe.Sample{Quantity: "triad", Value: float64(100+i) * (1 + float64(side)/10), Unit: "GB/s",
					Better: recipe.Higher}
				o := bench.Round{Number: i, State: "ok", Steps: []bench.Step{{State: bench.StepOK, Samples: []recipe.Sample{v}}}}
				if err := bench.SaveRound(ctx, tx, r, o); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for _, id := range []string{one.ID, other.ID} { // of a comparison, A is A
		c := read[apiv1.BenchmarkComparison](t, ask("GET", "/v1/benchmarks/"+id+"/comparison", "", "viewer"))
		if !c.Paired || c.A.ID != one.ID || len(c.Quantities) != 1 {
			t.Fatalf("%+v", c)
		}
		if q := c.Quantities[0]; q.Verdict != "differs" || q.Better != "b" || q.N != 7 || q.Interval == nil || q.Ratio < 1.099 ||
			q.Ratio > 1.101 || len(q.Pairs) != 7 {
			t.Errorf("%+v", q)
		}
	}
	if got := ask("GET", "/v1/benchmarks/"+one.ID+"/comparison?with=b-bio", "", "member"); got.status != 404 {
		t.Error(got)
	}
	if got := ask("GET", "/v1/benchmarks/b-aero/comparison", "", "member"); got.status != 422 {
		t.Error(got)
	}
	cancelled := read[apiv1.Benchmark](t, ask("DELETE", "/v1/benchmarks/"+one.ID, "", "member"))
	other = read[apiv1.Benchmark](t, ask("GET", "/v1/benchmarks/"+one.Peer, "", "member"))
	if !cancelled.Cancel || !other.Cancel {
		t.Errorf("%+v, %+v", cancelled, other)
	}
}
