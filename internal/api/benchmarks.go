package api

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/bench/library"
	"muster/internal/bench/recipe"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kit/duration"
)

const (
	usualSuite     = "quick"
	mostBenchmarks = 4  // runs of a project that have not ended
	mostWatches    = 16 // beside them, those that are repeated
	soonest        = 10 * time.Minute

	roundsUntilPrecise = 20
	mostListed         = 100 // of runs in a page: each is read with its plan
	mostProblems       = 20
)

// recipes are those of every site with the site's own.
func (a *API) recipes() (*recipe.Library, error) {
	folders := []fs.FS{library.Files()}
	if a.Recipes != nil {
		folders = append(folders, a.Recipes)
	}
	l, err := recipe.Load(folders...)
	if err != nil {
		return nil, conflict("the site's recipes cannot be used: "+err.Error(),
			"an operator can mend them; `muster bench validate` checks a file")
	}
	return l, nil
}

func invalidBenchmark(format string, args ...any) error {
	return invalid(fmt.Sprintf(format, args...), "`muster bench list` shows what there is, and what each needs")
}

func (a *API) listSuites(ctx context.Context, in *apiv1.ListSuitesInput) (*output[apiv1.List[apiv1.Suite]], error) {
	l, err := a.recipes()
	if err != nil {
		return nil, err
	}
	on := recipe.Example()
	if in.Cluster != "" {
		err = a.DB.View(ctx, func(tx *core.Tx) error {
			place, err := a.benchPlace(ctx, tx, in.Cluster, in.Queue, in.Nodes)
			on = place.on
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var all []apiv1.Suite
	for _, name := range slices.Sorted(maps.Keys(l.Suites)) {
		all = append(all, suiteView(l, l.Suites[name], on, false))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Recipes)) {
		if l.Suites[name] == nil {
			s, _ := l.Suite(name)
			all = append(all, suiteView(l, s, on, true))
		}
	}
	key := func(s apiv1.Suite) string { return fmt.Sprint(s.Single, " ", s.Name) }
	return &output[apiv1.List[apiv1.Suite]]{Body: pageOf(in.Page, all, key)}, nil
}

func shapeView(on recipe.Nodes) apiv1.BenchmarkNodes {
	return apiv1.BenchmarkNodes{Nodes: on.Nodes, Cores: on.Cores, MemoryMiB: on.Memory >> 20}
}

func suiteView(l *recipe.Library, s *recipe.Suite, on recipe.Nodes, single bool) apiv1.Suite {
	v := apiv1.Suite{Name: s.Name, About: s.About, Single: single, Rounds: s.Rounds, On: shapeView(on)}
	for _, e := range s.Entries {
		r := l.Recipes[e.Recipe]
		one := apiv1.SuiteRecipe{Name: r.Name, About: r.About, Programs: r.Needs.Programs, Nodes: r.Needs.Nodes}
		steps, err := l.Steps(&recipe.Suite{Sizes: s.Sizes, Entries: []recipe.Entry{e}}, on)
		if err != nil { // its expressions have no value there
			one.Skip = err.Error()
		}
		for _, step := range steps {
			if one.Steps++; step.Skip != "" {
				one.Skipped++
				one.Skip = step.Skip
				continue
			}
			if seconds, err := step.Expected(); err == nil {
				one.Seconds += seconds
			}
		}
		v.Recipes = append(v.Recipes, one)
		v.Seconds += one.Seconds * float64(s.Rounds)
	}
	return v
}

func (a *API) runBenchmark(ctx context.Context, in *apiv1.RunBenchmarkInput) (*output[apiv1.Benchmark], error) {
	l, err := a.recipes()
	if err != nil {
		return nil, err
	}
	if in.Body.Suite == "" {
		in.Body.Suite = usualSuite
	}
	suite, known := l.Suite(in.Body.Suite)
	if !known {
		return nil, invalidBenchmark("there is no suite %q, and no recipe", in.Body.Suite)
	}
	every, err := everyOf(in.Body)
	if err != nil {
		return nil, err
	}
	if in.Body.Brief {
		brief := l.Brief(*suite)
		suite = &brief
	}
	nodes, err := largest(in.Body)
	if err != nil {
		return nil, err
	}
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Benchmark) error {
		plan := planOf(l, suite)
		plan.Precise, plan.Reserved = in.Body.Precise, in.Body.Reservation
		if plan.Precise > 0 {
			plan.Rounds = roundsUntilPrecise
		}
		if in.Body.Rounds > 0 {
			plan.Rounds = in.Body.Rounds
		}
		if len(in.Body.Sizes) > 0 {
			plan.Suite.Sizes = in.Body.Sizes
		}
		one := bench.Run{ID: core.NewID("b"), Plan: plan, Every: every}
		if in.Body.CompareWith != "" {
			other := bench.Run{ID: core.NewID("b"), Peer: one.ID, Plan: plan}
			other.Plan.Second, one.Peer = true, other.ID
			if err := a.addRun(ctx, tx, in.Body.CompareWith, in.Body.CompareWithQueue, nodes, other); err != nil {
				return err
			}
		}
		if err := a.addRun(ctx, tx, in.Cluster, in.Body.Queue, nodes, one); err != nil {
			return err
		}
		r, err := bench.Get(ctx, tx, one.ID)
		*out = benchmarkView(r)
		return err
	})
}

// largest is on how many nodes a run is to be: the most of its sizes, where there are any; 0: on all.
func largest(b apiv1.RunBenchmarkBody) (int, error) {
	if len(b.Sizes) == 0 {
		return b.Nodes, nil
	}
	if slices.Min(b.Sizes) < 1 {
		return 0, invalidBenchmark("sizes: a recipe takes one node or more")
	}
	most := slices.Max(b.Sizes)
	if b.Nodes != 0 && b.Nodes != most {
		return 0, invalidBenchmark("sizes: the largest is %d, and the run is on %d nodes", most, b.Nodes)
	}
	return most, nil
}

// everyOf is how often a run is to be repeated; 0: it is not.
func everyOf(b apiv1.RunBenchmarkBody) (every time.Duration, err error) {
	if b.Every == "" {
		return 0, nil
	}
	if every, err = duration.Within(b.Every, soonest, duration.Longest); err != nil {
		return 0, invalidBenchmark("every: %v", err)
	}
	if b.CompareWith != "" {
		return 0, invalidBenchmark("a comparison is not repeated")
	}
	return every, nil
}

// addRun adds a run on a cluster, or says why it cannot be.
func (a *API) addRun(ctx context.Context, tx *core.Tx, ref, queue string, nodes int, r bench.Run) error {
	place, err := a.benchPlace(ctx, tx, ref, queue, nodes)
	if err != nil {
		return err
	}
	r.Project, r.ClusterID, r.Cluster, r.Account = place.project, place.id, place.name, identityOf(ctx)
	r.Plan.Queue, r.Plan.Nodes = place.queue, place.on
	work, err := r.Plan.Work(0)
	if err != nil {
		return invalidBenchmark("suite %s on cluster %s: %v", r.Plan.Suite.Name, place.name, err)
	}
	if err := place.admits(&work); err != nil {
		return err
	}
	most := mostBenchmarks
	n, repeated, err := bench.Unfinished(ctx, tx, r.Project)
	if err == nil && r.Every > 0 {
		n, most = repeated, mostWatches
		if r.Begin, err = tx.Now(ctx); err == nil {
			err = bench.EndWatch(ctx, tx, r.ClusterID, r.Plan.Suite.Name)
		}
	}
	if err != nil {
		return err
	}
	if n >= most {
		text := fmt.Sprintf("project %s has %d benchmarks that wait or run, and no more are taken", r.Project, n)
		return conflict(text, "`muster bench runs` shows them")
	}
	return bench.Add(ctx, tx, r)
}

// planOf is what a suite's run does, but for its nodes.
func planOf(l *recipe.Library, s *recipe.Suite) bench.Plan {
	p := bench.Plan{Suite: *s, Recipes: map[string]*recipe.Recipe{}, Rounds: s.Rounds}
	for _, e := range s.Entries {
		p.Recipes[e.Recipe] = l.Recipes[e.Recipe]
	}
	return p.Drawn()
}

func benchmarkView(r bench.Run) apiv1.Benchmark {
	v := apiv1.Benchmark{ID: r.ID, Project: r.Project, Cluster: r.Cluster, ClusterID: r.ClusterID, Account: r.Account,
		Suite: r.Plan.Suite.Name, Brief: r.Plan.Suite.Brief, Queue: r.Plan.Queue, On: shapeView(r.Plan.Nodes),
		Phase: apiv1.Phase(r.Phase), Reason: r.Reason, Outcome: apiv1.BenchmarkOutcome(r.Outcome), Rounds: r.All(),
		Ended: r.Round, Broken: r.Broken, Cancel: r.Cancel, Peer: r.Peer, CreatedAt: r.CreatedAt}
	if r.Phase == bench.Ended {
		v.EndedAt = &r.PhaseAt
	}
	if r.Every > 0 {
		v.Every, v.BeginsAt = duration.Text(r.Every), &r.Begin
	}
	return v
}

func (a *API) listBenchmarks(ctx context.Context, in *apiv1.ListBenchmarksInput) (*output[apiv1.List[apiv1.Benchmark]], error) {
	of := bench.Of{Projects: visible(ctx), Suite: in.Suite, Limit: min(in.Limit, mostListed)}
	project, name := access.Named(in.Cluster)
	if of.Cluster = name; project != "" {
		if !sees(ctx, project) {
			return nil, fmt.Errorf("project %s: %w", project, core.ErrNotFound)
		}
		of.Projects = []string{project}
	}
	var err error
	if of.Before, of.BeforeID, err = placeAt(in.Cursor); err != nil {
		return nil, err
	}
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Benchmark]) error {
		runs, err := bench.List(ctx, tx, of)
		if err != nil {
			return err
		}
		if len(runs) == 0 && in.Cluster != "" && in.Cursor == "" {
			if _, err = a.find(ctx, tx, in.Cluster); isNotFound(err) { // is there one of that name?
				_, _, err = chooseExternal(ctx, tx, in.Cluster)
			}
		}
		out.Items = some(each(runs, benchmarkView))
		if n := len(runs); n > 0 && n == of.Limit {
			out.Next = cursor(runs[n-1].CreatedAt, runs[n-1].ID)
		}
		return err
	})
}

// findBenchmark is the run of an ID, if the request's action may be done there.
func (a *API) findBenchmark(ctx context.Context, tx *core.Tx, id string) (bench.Run, error) {
	r, err := bench.Get(ctx, tx, id)
	if err == nil {
		err = permit(ctx, r.Project, "run "+id)
	}
	if err != nil {
		return bench.Run{}, err
	}
	return r, nil
}

func (a *API) cancelBenchmark(ctx context.Context, in *apiv1.BenchmarkRef) (*output[apiv1.Benchmark], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Benchmark) error {
		r, err := a.findBenchmark(ctx, tx, in.Benchmark)
		if err != nil {
			return err
		}
		if caller := callerOf(ctx); r.Account != caller.Name && !caller.May(access.Govern, r.Project) {
			return forbidden(fmt.Sprintf("run %s is %s's", r.ID, r.Account), "it takes them, or an owner of the project")
		}
		if r.Every > 0 {
			err = bench.EndWatch(ctx, tx, r.ClusterID, r.Plan.Suite.Name)
		} else {
			err = bench.WantEnd(ctx, tx, r.ID)
		}
		if err != nil {
			return err
		}
		r, err = bench.Get(ctx, tx, r.ID)
		*out = benchmarkView(r)
		return err
	})
}

func (a *API) benchmarkOutput(ctx context.Context, in *apiv1.GetBenchmarkOutputInput) (*output[apiv1.BenchmarkOutput], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.BenchmarkOutput) error {
		r, err := a.findBenchmark(ctx, tx, in.Benchmark)
		if err != nil {
			return err
		}
		if r.Account != identityOf(ctx) {
			text := fmt.Sprintf("run %s is %s's: its output is too", r.ID, r.Account)
			return forbidden(text, "")
		}
		written, err := bench.OutputOf(ctx, tx, r.ID, in.Round, in.Step)
		out.Text = written[""]
		delete(written, "")
		out.Files = written
		return err
	})
}
