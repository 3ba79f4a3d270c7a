package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/kit/words"
)

func (a *app) benchShow() *cobra.Command {
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "Show what a run has measured",
		Long: `Show what a run has measured, also while it runs: for each quantity the median of its rounds' values, the interval that holds
the true median with 95 % confidence (of six rounds or more), the smallest and the largest value, and the slowest node. A round's
value is the median of what was measured in it. Steps that are not ok are named, and count nowhere.

With --samples, every value is shown, each round, and what its nodes said of themselves: kernel, CPU, memory, settings.`,
		Example: `  muster bench show b0123456789
  muster bench show b0123456789 --samples -o json`,
		Args: cobra.ExactArgs(1),
	}
	samples := c.Flags().Bool("samples", false, "show every value")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		b, _, err := apiv1.GetBenchmark.Call(ctx, a, apiv1.BenchmarkRef{Benchmark: args[0]})
		if err != nil {
			return err
		}
		return a.showBenchmark(ctx, b, *output, *samples)
	})
}

// showBenchmark prints a run with what it has measured.
func (a *app) showBenchmark(ctx context.Context, b apiv1.Benchmark, output format, samples bool) error {
	all, err := measuredBy(ctx, a, b, samples)
	if err != nil {
		return err
	}
	return output.print(a.out, must(json.Marshal(all)), func() { a.printBenchmark(all) })
}

func (a *app) printBenchmark(b export.Run) {
	a.out.line("run %s of suite %s on cluster %s is %s", b.ID, b.Suite, b.Cluster, benchmarkState(b.Benchmark))
	var steps []string
	for _, state := range slices.Sorted(maps.Keys(b.Steps)) {
		steps = append(steps, fmt.Sprintf("%d %s", b.Steps[state], state))
	}
	rounds := fmt.Sprintf("%d of %d have ended", b.Ended, b.Rounds)
	if b.Broken > 0 {
		rounds += fmt.Sprintf("; %d of them do not count: they were disturbed, or their job was lost or failed", b.Broken)
	}
	now := benchmarkWhy(b.Benchmark)
	if b.Phase != apiv1.Ended {
		now = benchmarkNow(b.Benchmark)
	}
	for _, fact := range [][2]string{
		{"on", placeText(b.Benchmark)}, {"by", b.Account}, {"rounds", rounds}, {"steps", strings.Join(steps, ", ")},
		{"state", now},
		{"asked for", b.CreatedAt.Local().Format(time.DateTime)},
	} {
		if fact[1] != "" {
			a.out.line("  %-10s %s", fact[0], fact[1])
		}
	}
	for _, caution := range b.Cautions {
		a.out.line("  %-10s %s", "caution", caution)
	}
	a.printSeries(b.Series)
	problems := newTable("ROUND", "STEP", "RECIPE", "STATE", "WHY").whole()
	for _, s := range b.Problems {
		problems.row(s.Round, s.Step, s.Recipe, s.State, s.Why)
	}
	problems.printBelow(a.out)
	a.printRounds(b.History, len(b.Samples) > 0)
	if len(b.Samples) == 0 {
		return
	}
	a.printFacts(export.Facts(b))
	a.out.gap()
	t := newTable("ROUND", "STEP", "RECIPE", "STATE", "QUANTITY", "NODE", "VALUE", "UNIT")
	for _, s := range b.Samples {
		for _, v := range s.Samples {
			t.row(s.Round, s.Step, s.Recipe, s.State, v.Quantity+export.Labelled(v.Labels), v.Node,
				strconv.FormatFloat(v.Value, 'g', -1, 64), v.Unit)
		}
	}
	t.print(a.out)
}

// printRounds shows rounds that do not count, or all of them.
func (a *app) printRounds(rounds []apiv1.BenchmarkRound, all bool) {
	t := newTable("ROUND", "STATE", "COUNTS", "TOOK", "NODES", "WHY")
	for _, o := range rounds {
		if !all && o.Counts {
			continue
		}
		var nodes []string
		for _, name := range slices.Sorted(maps.Keys(o.Nodes)) {
			nodes = append(nodes, strings.TrimSuffix(name+" on "+o.Nodes[name], " on "))
		}
		t.row(o.Round, string(o.State), yes(o.Counts), seconds(o.Ended.Sub(o.Began)), words.Few(nodes),
			strings.Trim(o.Why+"; "+o.Disturbed, "; "))
	}
	t.printBelow(a.out)
}

// printFacts shows what nodes said of themselves.
func (a *app) printFacts(facts []export.Fact) {
	t := newTable("NODES SAY", "VALUE", "NODES").whole()
	for _, f := range facts {
		for _, said := range f.Values {
			t.row(f.Key, said.Value, said.Whose(f))
		}
	}
	t.printBelow(a.out)
}

func (a *app) printSeries(series []apiv1.BenchmarkSeries) {
	if len(series) == 0 {
		return
	}
	a.out.gap()
	t := newTable("RECIPE", "QUANTITY", "MEDIAN", "95 % INTERVAL", "LEAST", "MOST", "UNIT", "ROUNDS", "SLOWEST NODE")
	names := export.NamesOf(series)
	for _, s := range series {
		slowest := ""
		if len(s.Nodes) > 1 {
			slowest = s.Nodes[0].Node + " " + words.Figure(s.Nodes[0].Value)
		}
		t.row(s.Recipe, names.Of(s.Recipe, s.Quantity, s.Parameters, s.Labels), words.Figure(s.Median),
			textOf(s.Interval, intervalText), words.Figure(s.Min), words.Figure(s.Max), s.Unit, s.N, slowest)
	}
	t.print(a.out)
	if slices.ContainsFunc(series, func(s apiv1.BenchmarkSeries) bool { return s.Interval == nil }) {
		a.say("fewer than six rounds do not say how sure a median is")
	}
}

// intervalText is "1.2 – 1.4".
func intervalText(i apiv1.Interval) string {
	return words.Figure(i.Low) + " – " + words.Figure(i.High)
}

func (a *app) benchOutput() *cobra.Command {
	c := &cobra.Command{
		Use:   "output RUN ROUND STEP",
		Short: "Show what a step of your run wrote",
		Long: `Print what a step of a run of yours wrote, and the files that its values are read from: of each the first MiB. The numbers of
round and step are those of ` + "`muster bench show --samples`" + `. Of a run with very much output some is not kept.`,
		Example: `  muster bench output b0123456789 0 2`,
		Args:    cobra.ExactArgs(3),
	}
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		in := apiv1.GetBenchmarkOutputInput{BenchmarkRef: apiv1.BenchmarkRef{Benchmark: args[0]}}
		for i, into := range []*int{&in.Round, &in.Step} {
			n, err := strconv.Atoi(args[i+1])
			if err != nil || n < 0 {
				return usage("%q is no number of a round or a step", args[i+1])
			}
			*into = n
		}
		return show(ctx, a, apiv1.GetBenchmarkOutput, in, *output, func(o apiv1.BenchmarkOutput) {
			to := a.foreign()
			_, _ = to.Write([]byte(o.Text))
			for _, name := range slices.Sorted(maps.Keys(o.Files)) {
				a.say("%s, %s:", name, words.Count(len(o.Files[name]), "byte"))
				_, _ = to.Write([]byte(o.Files[name]))
			}
			if o.Text == "" && len(o.Files) == 0 {
				a.say("it wrote nothing, or nothing was kept")
			}
		})
	})
}
