package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/bench/recipe"
	"muster/internal/bench/round"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/task"
)

const (
	mostLooks  = 2               // rounds in a page: each with what all its nodes said
	tailRead   = 64 << 10        // of a job's output, to see what runs
	roundStart = 3 * time.Second // what a round takes beside its steps, about
)

func (a *API) getBenchmark(ctx context.Context, in *apiv1.BenchmarkRef) (*output[apiv1.Benchmark], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Benchmark) error {
		r, err := a.findBenchmark(ctx, tx, in.Benchmark)
		if err != nil {
			return err
		}
		*out = benchmarkView(r)
		count, _, err := bench.Tally(ctx, tx, r.ID)
		if err != nil {
			return err
		}
		out.Steps = map[string]int{}
		for state, n := range count {
			out.Steps[string(state)] = n
		}
		if out.Cautions, err = bench.Cautions(ctx, tx, r); err != nil {
			return err
		}
		steps, err := r.Plan.Steps()
		if err != nil {
			return err
		}
		bad, err := bench.Problems(ctx, tx, r.ID, mostProblems)
		if err != nil {
			return err
		}
		for _, o := range bad {
			for _, s := range o.Steps {
				out.Problems = append(out.Problems, stepView(o, s, steps))
			}
		}
		out.Problems = slices.CompactFunc(out.Problems, func(a, b apiv1.BenchmarkStep) bool {
			return a.State == string(bench.StepSkipped) && a.State == b.State && a.Recipe == b.Recipe && a.Why == b.Why
		})
		if r.Phase == bench.Ended {
			return nil
		}
		return progressOf(ctx, tx, r, steps, out)
	})
}

// progressOf fills in what a run does now, and how long it still takes.
func progressOf(ctx context.Context, tx *core.Tx, r bench.Run, steps []recipe.Step, v *apiv1.Benchmark) error {
	each, err := r.Plan.Expected()
	if err != nil {
		return err
	}
	each += roundStart
	if took, n, err := bench.Took(ctx, tx, r.ID); err != nil {
		return err
	} else if n > 0 {
		each = took / time.Duration(n)
	}
	left := each * time.Duration(r.All()-r.Round)
	defer func() { v.Left = max(left, 0).Round(time.Second).Seconds() }()
	if r.Task == "" {
		return nil
	}
	t, err := task.Get(ctx, tx, r.Task)
	if isNotFound(err) {
		return nil // its cluster is gone, and soon it has ended
	}
	if err != nil {
		return err
	}
	v.Now = &apiv1.BenchmarkNow{Round: r.Round, Task: t.ID, Phase: apiv1.Phase(t.Phase), Reason: t.Reason, Nodes: t.Said.Nodes}
	if t.Said.Began.IsZero() {
		return nil
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	left -= min(now.Sub(t.Said.Began), each)
	tail, err := task.AllOutput(ctx, tx, t.ID, max(0, t.Kept-tailRead))
	for number, ran := range round.Read(r.Plan.Mark, tail).Steps {
		if ran.Running() && number >= 0 && number < len(steps) {
			v.Now.Recipe, v.Now.Parameters = steps[number].Recipe.Name, steps[number].Parameters
		}
	}
	return err
}

func stepView(o bench.Round, s bench.Step, steps []recipe.Step) apiv1.BenchmarkStep {
	v := apiv1.BenchmarkStep{Round: o.Number, Step: s.Number, State: string(s.State), Why: s.Why, Seconds: s.Took.Seconds(),
		Broken: o.Broken()}
	if s.Number < len(steps) {
		v.Recipe, v.Parameters = steps[s.Number].Recipe.Name, steps[s.Number].Parameters
	}
	v.Samples = each(s.Samples, func(one recipe.Sample) apiv1.BenchmarkSample { return apiv1.BenchmarkSample(one) })
	return v
}

// measured is a run with its steps and what they have measured, and how it is shown.
func (a *API) measured(ctx context.Context, id string) (s bench.Side, v apiv1.Benchmark, err error) {
	err = a.DB.View(ctx, func(tx *core.Tx) (err error) {
		if s.Run, err = a.findBenchmark(ctx, tx, id); err != nil {
			return err
		}
		v = benchmarkView(s.Run)
		if v.Cautions, err = bench.Cautions(ctx, tx, s.Run); err == nil {
			s.Rounds, err = bench.Rounds(ctx, tx, id)
		}
		return err
	})
	return s, v, err
}

func (a *API) benchmarkRounds(ctx context.Context,
	in *apiv1.ListOfBenchmarkInput) (*output[apiv1.List[apiv1.BenchmarkRound]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.BenchmarkRound]) error {
		if _, err := a.findBenchmark(ctx, tx, in.Benchmark); err != nil {
			return err
		}
		rounds, err := bench.RoundsOf(ctx, tx, in.Benchmark)
		if err != nil {
			return err
		}
		in.Limit = min(in.Limit, mostLooks)
		*out = pagedAs(in.Page, rounds, func(o bench.Round) string { return fmt.Sprintf("%04d", o.Number) }, roundView)
		for i := range out.Items {
			o := &out.Items[i]
			looks, err := bench.LooksOf(ctx, tx, in.Benchmark, o.Round)
			if err != nil {
				return err
			}
			o.Before, o.After = looks.Before, looks.After
		}
		return nil
	})
}

func roundView(o bench.Round) apiv1.BenchmarkRound {
	return apiv1.BenchmarkRound{Round: o.Number, State: apiv1.TaskOutcome(o.State), Why: o.Why, Disturbed: o.Disturbed,
		Counts: !o.Broken(), Began: o.Began, Ended: o.Ended, Nodes: o.Nodes}
}

func (a *API) benchmarkSteps(ctx context.Context,
	in *apiv1.ListOfBenchmarkInput) (*output[apiv1.List[apiv1.BenchmarkStep]], error) {
	r, _, err := a.measured(ctx, in.Benchmark)
	if err != nil {
		return nil, err
	}
	steps, err := r.Run.Plan.Steps()
	if err != nil {
		return nil, err
	}
	var all []apiv1.BenchmarkStep
	for _, o := range r.Rounds {
		for _, s := range o.Steps {
			all = append(all, stepView(o, s, steps))
		}
	}
	key := func(s apiv1.BenchmarkStep) string { return fmt.Sprintf("%04d %04d", s.Round, s.Step) }
	return &output[apiv1.List[apiv1.BenchmarkStep]]{Body: pageOf(in.Page, all, key)}, nil
}

func (a *API) benchmarkSeries(ctx context.Context,
	in *apiv1.ListOfBenchmarkInput) (*output[apiv1.List[apiv1.BenchmarkSeries]], error) {
	r, _, err := a.measured(ctx, in.Benchmark)
	if err != nil {
		return nil, err
	}
	series, err := bench.SeriesOf(r.Run.Plan, r.Rounds)
	if err != nil {
		return nil, err
	}
	places := make([]int, len(series))
	for i := range places {
		places[i] = i
	}
	page := pagedAs(in.Page, places, func(place int) string { return fmt.Sprintf("%06d", place) },
		func(place int) apiv1.BenchmarkSeries { return seriesView(series[place]) })
	return &output[apiv1.List[apiv1.BenchmarkSeries]]{Body: page}, nil
}

func seriesView(s bench.Series) apiv1.BenchmarkSeries {
	v := apiv1.BenchmarkSeries{Step: s.Step, Recipe: s.Recipe, Quantity: s.Quantity, Parameters: s.Parameters, Labels: s.Labels,
		Unit: s.Unit, Better: s.Better, N: s.Summary.N, Median: s.Summary.Median, Min: s.Summary.Min, Lower: s.Summary.Lower,
		Upper: s.Summary.Upper, Max: s.Summary.Max, MAD: s.Summary.MAD}
	if i := s.Summary.Interval; i != nil {
		v.Interval = &apiv1.Interval{Low: i.Low, High: i.High}
	}
	v.Rounds = each(s.Values, func(one bench.RoundValue) apiv1.RoundValue { return apiv1.RoundValue(one) })
	v.Nodes = each(s.Nodes, func(one bench.NodeValue) apiv1.NodeValue { return apiv1.NodeValue(one) })
	return v
}

func (a *API) compareBenchmarks(ctx context.Context,
	in *apiv1.CompareBenchmarksInput) (*output[apiv1.BenchmarkComparison], error) {
	one, viewOne, err := a.measured(ctx, in.Benchmark)
	if err != nil {
		return nil, err
	}
	with := cmp.Or(in.With, one.Run.Peer)
	if with == "" {
		return nil, invalidBenchmark("run %s was done beside no other: say with which it is to be compared", one.Run.ID)
	}
	other, viewOther, err := a.measured(ctx, with)
	if err != nil {
		return nil, err
	}
	if in.With == "" && one.Run.Plan.Second {
		one, other, viewOne, viewOther = other, one, viewOther, viewOne
	}
	c, err := bench.Compare(one, other, in.Margin)
	if err != nil {
		return nil, err
	}
	v := apiv1.BenchmarkComparison{A: viewOne, B: viewOther, Paired: c.Paired, Margin: in.Margin,
		Quantities: some(each(c.Quantities, comparedView)),
		Failures:   apiv1.BenchmarkFailures{A: c.FailedA, OfA: c.OfA, B: c.FailedB, OfB: c.OfB, P: c.FailedP}}
	return &output[apiv1.BenchmarkComparison]{Body: v}, nil
}

func comparedView(q bench.Compared) apiv1.ComparedQuantity {
	v := apiv1.ComparedQuantity{Recipe: q.Recipe, Quantity: q.Quantity, Parameters: q.Parameters, Labels: q.Labels, Unit: q.Unit,
		Direction: q.Series.Better, A: q.Summary.Median, B: q.B.Summary.Median, N: q.Effect.N, Ratio: q.Effect.Ratio,
		P: q.Effect.P, Adjusted: q.Adjusted, Verdict: string(q.Verdict), Better: q.Better, Why: q.Why}
	if i := q.Effect.Interval; i != nil {
		v.Interval = &apiv1.Interval{Low: i.Low, High: i.High}
	}
	v.Pairs = each(q.Pairs, func(p bench.Pair) apiv1.BenchmarkPair { return apiv1.BenchmarkPair(p) })
	return v
}
