package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/clock"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
)

func (a *app) benchList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list [NAME]",
		Aliases: []string{"ls"},
		Short:   "List suites and recipes, what each needs, and how long it takes",
		Long: `List the suites of benchmarks, and the recipes that can be run alone: what each needs, and how long all of its rounds take
about. With the name of a cluster, that is for the cluster's nodes, and what cannot run there is said.`,
		Example: `  muster bench list
  muster bench list hello`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	var in apiv1.ListSuitesInput
	onNodes(c, &in.Queue, &in.Nodes)
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		in.Cluster = strings.Join(args, "")
		if in.Cluster == "" && (in.Queue != "" || in.Nodes > 0) {
			return usage("--queue and --nodes are of a cluster: `muster bench list NAME`")
		}
		return showAll(ctx, a, apiv1.ListSuites, in, *output, a.printSuites)
	})
}

// onNodes are the flags of nodes to measure on.
func onNodes(c *cobra.Command, queue *string, nodes *int) {
	c.Flags().StringVar(queue, "queue", "", "on nodes of this `QUEUE` (default: the first)")
	c.Flags().IntVarP(nodes, "nodes", "N", 0, "on `N` nodes (default: all that the queue has)")
}

// asked are flags of runs that are asked for once.
func asked(c *cobra.Command, b *apiv1.RunBenchmarkBody) {
	c.Flags().IntSliceVar(&b.Sizes, "sizes", nil, "each recipe on these `NUMBERS` of nodes, as 1,2,4 (default: as the suite says)")
	c.Flags().BoolVar(&b.Brief, "brief", false, "in a shortened form, to see that all of it runs")
	c.Flags().Float64Var(&b.Precise, "precise", 0, "end once all values are sure to this `PART`, as 0.02; 20 rounds at most")
	c.Flags().StringVar(&b.Reservation, "reservation", "", "run in this `RESERVATION` of the cluster's scheduler")
}

func (a *app) printSuites(suites []apiv1.Suite) {
	t := newTable("SUITE", "RECIPES", "ROUNDS", "TAKES", "ABOUT")
	alone := newTable("RECIPE", "STEPS", "TAKES", "NEEDS", "ABOUT", "CANNOT RUN")
	on := apiv1.BenchmarkNodes{}
	for _, s := range suites {
		on = s.On
		takes := short(time.Duration(s.Seconds * float64(time.Second)))
		if !s.Single {
			recipes := lists.Map(s.Recipes, func(r apiv1.SuiteRecipe) string { return r.Name })
			t.row(s.Name, strings.Join(recipes, ","), s.Rounds, takes, s.About)
			continue
		}
		r := s.Recipes[0]
		needs := slices.Clone(r.Programs)
		if r.Nodes > 1 {
			needs = append(needs, words.Count(r.Nodes, "node"))
		}
		alone.row(r.Name, r.Steps, takes, strings.Join(needs, ", "), r.About, r.Skip)
	}
	t.print(a.out)
	a.out.gap()
	alone.print(a.out)
	a.say("TAKES: all rounds on %s", nodesText(on))
}

// placeText is where a run measures, in words.
func placeText(b apiv1.Benchmark) string { return nodesText(b.On) + " in queue " + b.Queue }

// nodesText is what is measured on, in words.
func nodesText(on apiv1.BenchmarkNodes) string {
	return fmt.Sprintf("%s of %s and %s", words.Count(on.Nodes, "node"), words.Count(on.Cores, "core"),
		words.Size(on.MemoryMiB<<20))
}

func (a *app) benchRun() *cobra.Command {
	c := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a suite of benchmarks on a cluster",
		Long: `Run a suite, or a single recipe, on a cluster as yourself. All of it runs several times, in another order each time. Each
such round is one job that has its nodes for itself, and waits for them like any job. A round whose job is lost is done again. With
--sizes, each recipe runs on each of these numbers of nodes, if that changes anything of it. Of a registered cluster, say on how
many nodes.

It goes on when you stop watching. ` + "`muster bench show`" + ` shows what has been measured so far, and it is kept when the
cluster is deleted. With --wait, the exit status is 1 unless all is ok that can run there.`,
		Example: `  muster bench run hello --wait
  muster bench run --suite stream --rounds 10 cfd --nodes 4 --wait
  muster bench run --suite paper-002 --sizes 1,2,4 cfd --wait`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	var in apiv1.RunBenchmarkInput
	c.Flags().StringVar(&in.Body.Suite, "suite", "quick", "`NAME` of a suite, or of a recipe")
	_ = c.RegisterFlagCompletionFunc("suite", a.completeAll(a.suiteNames))
	c.Flags().IntVar(&in.Body.Rounds, "rounds", 0, "run all of it `N` times (default: as the suite says)")
	onNodes(c, &in.Body.Queue, &in.Body.Nodes)
	asked(c, &in.Body)
	wait, output := waitFlags(c, "it has ended"), formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		in.Cluster = args[0]
		b, raw, err := apiv1.RunBenchmark.Call(ctx, a, in)
		if err != nil {
			return err
		}
		a.say("run %s of suite %s on %s: %s", b.ID, b.Suite, placeText(b), words.Count(b.Rounds, "round"))
		if !wait.wait {
			a.say("`muster bench show %s` shows it, `muster bench cancel %s` ends it", b.ID, b.ID)
			return output.print(a.out, raw, func() { a.out.line("%s", b.ID) })
		}
		if b, err = a.awaitBenchmarks(ctx, wait, b.ID); err != nil {
			return err
		}
		if err := a.showBenchmark(ctx, b, *output, false); err != nil {
			return err
		}
		if b.Outcome != apiv1.BenchmarkOK {
			return fmt.Errorf("run %s is %s: %s", b.ID, b.Outcome, b.Reason)
		}
		return nil
	})
}

func (a *app) suiteNames(ctx context.Context) ([]string, error) {
	return namesOf(ctx, a, apiv1.ListSuites, func(s apiv1.Suite) string { return s.Name + "\t" + s.About })
}

// awaitBenchmarks returns runs when all have ended, and the first of them; it tells what runs.
func (a *app) awaitBenchmarks(ctx context.Context, w *waiting, ids ...string) (first apiv1.Benchmark, err error) {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	show, told, all := &plainLines{app: a, start: time.Now()}, "", strings.Join(ids, " and ")
	for {
		text, left := "", 0.0
		for i, id := range ids {
			b, _, err := apiv1.GetBenchmark.Call(ctx, a, apiv1.BenchmarkRef{Benchmark: id})
			switch {
			case errors.Is(context.Cause(ctx), errTimeout):
				return b, fmt.Errorf("not done after %s (it goes on; `muster bench show %s` shows it)", w.timeout, ids[0])
			case ctx.Err() != nil:
				a.say("%s goes on; `muster bench show %s` shows it, `muster bench cancel %s` ends it", all, ids[0], ids[0])
				return b, silent{context.Cause(ctx)}
			case err != nil:
				return b, fmt.Errorf("%w (%s goes on)", err, all)
			}
			if i == 0 {
				first = b
			}
			if left += b.Left; b.Phase != apiv1.Ended && (text == "" || b.Now != nil) {
				if text = benchmarkNow(b); len(ids) > 1 {
					text = b.Cluster + ", " + text
				}
			}
		}
		if text == "" {
			return first, nil
		}
		if text != told {
			told = text
			if left > 0 {
				text += fmt.Sprintf("; about %s left", short(time.Duration(left*float64(time.Second))))
			}
			show.note(text)
		}
		// Where the controller shares its CPUs with the nodes, a long run is disturbed by who looks often.
		pause := max(a.timing.draw*2, min(time.Since(show.start)/50, a.timing.draw*20))
		_ = clock.Sleep(ctx, pause)
	}
}

// benchmarkNow is what a run that has not ended does.
func benchmarkNow(b apiv1.Benchmark) string {
	text := fmt.Sprintf("round %d of %d", min(b.Ended+1, b.Rounds), b.Rounds)
	now := b.Now
	switch {
	case b.Cancel:
		return text + " is being cancelled"
	case now == nil:
		return cmp.Or(b.Reason, text)
	case now.Recipe != "":
		text += ": " + now.Recipe
	case now.Phase == apiv1.Running:
		text += " runs"
	default:
		text += " waits" + textIf(now.Reason != "", ": "+now.Reason)
	}
	return text + textIf(len(now.Nodes) > 0, " on "+words.Few(now.Nodes))
}

func (a *app) benchRuns() *cobra.Command {
	c := &cobra.Command{
		Use:   "runs [NAME]",
		Short: "List runs of benchmarks",
		Long: `List the runs of suites on the clusters of your projects, or on one that has or had this name, the newest last. Of a project
the last 1000 are kept, with 64 MiB of what they have measured.`,
		Example: `  muster bench runs hello
  muster bench runs --suite quick -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	var in apiv1.ListBenchmarksInput
	c.Flags().StringVar(&in.Suite, "suite", "", "only of the suite, or the recipe, of this `NAME`")
	_ = c.RegisterFlagCompletionFunc("suite", a.completeAll(a.suiteNames))
	return listing(a, c, apiv1.ListBenchmarks, &in, func(runs []apiv1.Benchmark) {
		if len(runs) == 0 {
			a.say("there are no runs; `muster bench run NAME` makes one")
			return
		}
		t := newTable("RUN", "SUITE", "CLUSTER", "USER", "NODES", "ROUNDS", "STATE", "AGE", "REASON")
		for _, b := range slices.Backward(runs) {
			t.row(b.ID, b.Suite, b.Cluster, b.Account, b.On.Nodes, fmt.Sprintf("%d/%d", b.Ended, b.Rounds), benchmarkState(b),
				age(b.CreatedAt), benchmarkWhy(b))
		}
		t.print(a.out)
	}, &in.Cluster)
}

// benchmarkState is a run's phase, or how it has ended.
func benchmarkState(b apiv1.Benchmark) string {
	return cmp.Or(string(b.Outcome), string(b.Phase))
}

// benchmarkWhy is the reason of a run's state, if that is not plain.
func benchmarkWhy(b apiv1.Benchmark) string {
	return textIf(b.Outcome != apiv1.BenchmarkOK, b.Reason)
}

func (a *app) benchCancel() *cobra.Command {
	c := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run of a suite",
		Long: `Cancel a run that waits or runs, with its job. What it has measured is kept. Owners of a project may cancel all of its
runs.`,
		Example: `  muster bench cancel b0123456789`,
		Args:    cobra.ExactArgs(1),
	}
	var ref apiv1.BenchmarkRef
	return showing(a, c, apiv1.CancelBenchmark, &ref, func(b apiv1.Benchmark) {
		if b.Phase == apiv1.Ended {
			a.say("run %s has ended: %s", b.ID, b.Outcome)
			return
		}
		a.say("run %s is being cancelled", b.ID)
	}, &ref.Benchmark)
}
