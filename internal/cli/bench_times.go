package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/kit/duration"
	"muster/internal/kit/words"
)

// pausesIn reads times that lie between runs.
func pausesIn(text string) (all []time.Duration, err error) {
	for part := range strings.SplitSeq(text, ",") {
		pause, err := duration.Within(part, time.Second, duration.Longest)
		if err != nil {
			return nil, usage("--after: %v", err)
		}
		all = append(all, pause)
	}
	if len(all) > 20 {
		return nil, usage("--after has 20 times at most")
	}
	return all, nil
}

// at is when a run has ended that is beside others; or, where there is none, when it should have.
type at struct {
	time time.Time
	run  string // "": there is none
}

// timesOf chooses among runs that have ended: the first, and for each pause the one nearest to so long after the one before, no
// further off than half of it. Where there is none, the next pause begins when it should have been.
func timesOf(runs []apiv1.Benchmark, pauses []time.Duration) []at {
	runs = slices.DeleteFunc(slices.Clone(runs), func(b apiv1.Benchmark) bool { return b.EndedAt == nil || b.Brief })
	if len(runs) == 0 {
		return nil
	}
	first := slices.MinFunc(runs, func(a, b apiv1.Benchmark) int { return a.EndedAt.Compare(*b.EndedAt) })
	all := []at{{*first.EndedAt, first.ID}}
	for i, pause := range pauses {
		next := at{time: all[i].time.Add(pause)}
		off := func(b apiv1.Benchmark) time.Duration { return b.EndedAt.Sub(next.time).Abs() }
		nearest := slices.MinFunc(runs, func(a, b apiv1.Benchmark) int { return cmp.Compare(off(a), off(b)) })
		if off(nearest) < pause/2 {
			next = at{*nearest.EndedAt, nearest.ID}
		}
		all = append(all, next)
	}
	return all
}

// printTimes shows what runs of a suite came to, with such pauses between them.
func (a *app) printTimes(ctx context.Context, in apiv1.ListClusterTrendsInput, suite string, pauses []time.Duration,
	output format) error {
	runs, err := apiv1.All(ctx, a, apiv1.ListBenchmarks, apiv1.ListBenchmarksInput{Cluster: in.Cluster, Suite: suite})
	if err != nil {
		return err
	}
	runs = slices.DeleteFunc(runs, func(b apiv1.Benchmark) bool { // of a cluster that had its name before
		return b.ClusterID != runs[0].ClusterID
	})
	times := timesOf(runs, pauses)
	if len(times) == 0 {
		return fmt.Errorf("no run of suite %s on cluster %s has ended; `muster bench watch` repeats one", suite, in.Cluster)
	}
	var ids []string
	for _, one := range times {
		if one.run != "" {
			ids = append(ids, one.run)
		}
	}
	in.Runs = strings.Join(ids, ",")
	return showAll(ctx, a, apiv1.ListClusterTrends, in, output, func(trends []apiv1.BenchmarkTrend) {
		columns := []string{"RECIPE", "QUANTITY"}
		for i, one := range times {
			name, when := fmt.Sprintf("T%d", i+1), one.time.Local().Format(time.DateTime)
			columns = append(columns, name)
			if one.run == "" { // which the first has
				a.out.line("%s  no run ended within %s of %s", name, short(pauses[i-1]/2), when)
				continue
			}
			a.out.line("%s  %s, run %s", name, when, one.run)
		}
		a.out.gap()
		t := newTable(append(columns, "UNIT", "MOST/LEAST")...)
		names := export.Names{}
		for _, trend := range trends {
			names.Add(trend.Recipe, trend.Quantity, trend.Parameters)
		}
		for _, trend := range trends {
			t.row(timesRow(trend, names, times)...)
		}
		t.print(a.out)
	})
}

// timesRow is one quantity at each time.
func timesRow(t apiv1.BenchmarkTrend, names export.Names, times []at) []any {
	row := []any{t.Recipe, names.Of(t.Recipe, t.Quantity, t.Parameters, t.Labels)}
	var values []float64
	for _, one := range times {
		i := slices.IndexFunc(t.Points, func(p apiv1.BenchmarkPoint) bool { return p.Run == one.run })
		if i < 0 {
			row = append(row, "–")
			continue
		}
		values = append(values, t.Points[i].Value)
		row = append(row, words.Figure(t.Points[i].Value))
	}
	spread := ""
	if len(values) > 1 && slices.Min(values) > 0 {
		spread = words.Figure(slices.Max(values) / slices.Min(values))
	}
	return append(row, t.Unit, spread)
}
