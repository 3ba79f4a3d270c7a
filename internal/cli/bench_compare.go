package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/kit/words"
)

func (a *app) benchCompare() *cobra.Command {
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two clusters or runs, and say what differs",
		Long: `Run a suite on two clusters in turns, and compare them quantity by quantity. The rounds of both are pairs, and lots say which
cluster is the first in each: what changes meanwhile changes for both. The ratio is that of B to A, with the interval that holds it
with 95 % confidence. Quantities differ, are equal within a margin, or it is not decided; p-values are corrected for their number.
A cluster compared with itself shows how small a difference can be seen. Without --wait, it is begun.

With --runs, A and B are runs: those of a comparison, or any others, whose values are then no pairs.`,
		Example: `  muster bench compare metal virtual --suite quick --wait
  muster bench compare hello hello --rounds 20 --wait
  muster bench compare mixed mixed --queue guests --queue-b machines
  muster bench compare --runs b0123456789 b9876543210 --margin 5`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeInTurn(a.clusterNames, a.clusterNames),
	}
	var in apiv1.RunBenchmarkInput
	c.Flags().StringVar(&in.Body.Suite, "suite", "quick", "`NAME` of a suite, or of a recipe")
	_ = c.RegisterFlagCompletionFunc("suite", a.completeAll(a.suiteNames))
	c.Flags().IntVar(&in.Body.Rounds, "rounds", 0, "this `N` of pairs (default: as the suite says)")
	onNodes(c, &in.Body.Queue, &in.Body.Nodes)
	asked(c, &in.Body)
	c.Flags().StringVar(&in.Body.CompareWithQueue, "queue-b", "", "of B, on nodes of this `QUEUE` (default: the first)")
	runs := c.Flags().Bool("runs", false, "A and B are runs that there are")
	margin := c.Flags().Float64("margin", 2, "by how many `PERCENT` B may be off and still be equal")
	wait, output := waitFlags(c, "both have ended"), formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if *margin < 0 || *margin > 100 {
			return usage("--margin is from 0 to 100")
		}
		of := apiv1.CompareBenchmarksInput{BenchmarkRef: apiv1.BenchmarkRef{Benchmark: args[0]}, With: args[1],
			Margin: *margin / 100}
		if !*runs {
			in.Cluster, in.Body.CompareWith = args[0], args[1]
			b, raw, err := apiv1.RunBenchmark.Call(ctx, a, in)
			if err != nil {
				return err
			}
			a.say("runs %s on %s and %s on %s in turns: %s of suite %s", b.ID, args[0], b.Peer, args[1],
				words.Count(b.Rounds, "pair"), b.Suite)
			if !wait.wait {
				a.say("`muster bench compare --runs %s %s` compares them, `muster bench cancel %s` ends both", b.ID, b.Peer, b.ID)
				return output.print(a.out, raw, func() { a.out.line("%s %s", b.ID, b.Peer) })
			}
			if _, err := a.awaitBenchmarks(ctx, wait, b.ID, b.Peer); err != nil {
				return err
			}
			of.Benchmark, of.With = b.ID, b.Peer
		}
		return show(ctx, a, apiv1.CompareBenchmarks, of, *output, a.printComparison)
	})
}

func (a *app) printComparison(c apiv1.BenchmarkComparison) {
	side := func(name string, b apiv1.Benchmark) {
		a.out.line("%s: run %s of suite %s on cluster %s, %s; %s", name, b.ID, b.Suite, b.Cluster, placeText(b),
			benchmarkState(b))
		for _, caution := range b.Cautions {
			a.out.line("   caution: %s", caution)
		}
	}
	side("A", c.A)
	side("B", c.B)
	if !c.Paired {
		a.out.line("not paired: they were not measured in turns, and what has changed between them counts too")
	}
	if f := c.Failures; f.A+f.B > 0 {
		text := fmt.Sprintf("steps that are not ok: %d of %d on A, %d of %d on B", f.A, f.OfA, f.B, f.OfB)
		if f.P < 0.05 {
			text += fmt.Sprintf("; that they fail so differently by chance has a probability of %s", words.Figure(f.P))
		}
		a.out.line("%s", text)
	}
	count := map[string]int{}
	for _, q := range c.Quantities {
		count[q.Verdict]++
	}
	var parts []string
	for _, verdict := range []string{"differs", "equal", "not decided", "not comparable"} {
		if n := count[verdict]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, verdict))
		}
	}
	a.out.line("%s (equal: within %s %%)", strings.Join(parts, ", "), words.Figure(c.Margin*100))
	a.out.gap()
	names := export.NamesCompared(c.Quantities)
	t := newTable("RECIPE", "QUANTITY", "A", "B", "UNIT", "B/A", "95 % INTERVAL", "N", "VERDICT", "BETTER", "WHY")
	for _, q := range c.Quantities {
		t.row(q.Recipe, names.Of(q.Recipe, q.Quantity, q.Parameters, q.Labels), words.Figure(q.A), words.Figure(q.B), q.Unit,
			textIf(q.N > 0, words.Figure(q.Ratio)), textOf(q.Interval, intervalText), q.N, q.Verdict, strings.ToUpper(q.Better),
			q.Why)
	}
	t.print(a.out)
}
