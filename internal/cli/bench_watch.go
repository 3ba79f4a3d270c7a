package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/duration"
)

func (a *app) benchWatch() *cobra.Command {
	c := &cobra.Command{
		Use:   "watch NAME",
		Short: "Repeat a suite on a cluster, to see when something changes",
		Long: `Run a suite on a cluster again and again, from now on, with the recipes as they are now. A round begins only while so many nodes
of the queue are free. If they are not for half of the time between two runs, or the cluster is paused or degraded, a run is left
out, which the cluster's events say.

` + "`muster bench history`" + ` shows how what is measured goes on. Once four runs show that a quantity has another level on the cluster, on
one of its machines or on all of their class, an event says so, and ` + "`muster bench changes`" + ` lists it with what else changed then.

It ends with --off, with ` + "`muster bench cancel`" + ` of its run, and with its cluster. Asked for again, it is another one in its place.`,
		Example: `  muster bench watch hello --every 1d --suite quick
  muster bench watch hello --off`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	var in apiv1.RunBenchmarkInput
	every := duration.Value(24 * time.Hour)
	c.Flags().Var(&every, "every", "how often, 10 minutes at the soonest")
	c.Flags().StringVar(&in.Body.Suite, "suite", "quick", "`NAME` of a suite, or of a recipe")
	_ = c.RegisterFlagCompletionFunc("suite", a.completeAll(a.suiteNames))
	c.Flags().IntVar(&in.Body.Rounds, "rounds", 0, "run all of it `N` times each time (default: as the suite says)")
	onNodes(c, &in.Body.Queue, &in.Body.Nodes)
	off := c.Flags().Bool("off", false, "do not repeat this suite any more")
	c.MarkFlagsMutuallyExclusive("off", "every")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if *off {
			return a.endWatch(ctx, args[0], in.Body.Suite)
		}
		in.Cluster, in.Body.Every = args[0], duration.Text(time.Duration(every))
		b, raw, err := apiv1.RunBenchmark.Call(ctx, a, in)
		if err != nil {
			return err
		}
		a.say("suite %s runs every %s on %s of %s, now for the first time: run %s", b.Suite, b.Every, placeText(b), b.Cluster, b.ID)
		a.say("`muster bench history %s` shows what it has measured, `muster bench watch %s --suite %s --off` ends it", b.Cluster,
			b.Cluster, b.Suite)
		return output.print(a.out, raw, func() { a.out.line("%s", b.ID) })
	})
}

// endWatch cancels the run of a suite that is repeated on a cluster.
func (a *app) endWatch(ctx context.Context, name, suite string) error {
	runs, err := apiv1.All(ctx, a, apiv1.ListBenchmarks, apiv1.ListBenchmarksInput{Cluster: name, Suite: suite})
	if err != nil {
		return err
	}
	for _, b := range runs {
		if b.Every != "" && b.Phase != apiv1.Ended {
			if _, _, err := apiv1.CancelBenchmark.Call(ctx, a, apiv1.BenchmarkRef{Benchmark: b.ID}); err != nil {
				return err
			}
			a.say("suite %s is not repeated any more on %s", suite, name)
			return nil
		}
	}
	return fmt.Errorf("suite %s is not repeated on cluster %s", suite, name)
}
