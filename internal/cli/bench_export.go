package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
)

func (a *app) benchExport() *cobra.Command {
	formats := append(slices.Sorted(maps.Keys(export.Formats())), string(asJSON))
	c := &cobra.Command{
		Use:   "export RUN",
		Short: "Write what a run has measured for other programs",
		Long: `Write all that a run has measured in the format of another program: csv has a line for each sample; json has everything; prometheus
has medians and their intervals, for the textfile collector of a node exporter; benchstat has a line for each round, as Go's
benchmarks do; reframe is a report of a session, with a test case for each step of each round.`,
		Example: `  muster bench export b0123456789 -o csv > run.csv
  muster bench export b0123456789 -o prometheus > /var/lib/node_exporter/hello.prom`,
		Args: cobra.ExactArgs(1),
	}
	format := c.Flags().StringP("format", "o", "csv", "the `FORMAT`: "+strings.Join(formats, ", "))
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return a.verb(c, func(ctx context.Context, args []string) error {
		write := export.Formats()[*format]
		if write == nil && *format != string(asJSON) {
			return usage("-o: %q is none; there are %s", *format, strings.Join(formats, ", "))
		}
		b, _, err := apiv1.GetBenchmark.Call(ctx, a, apiv1.BenchmarkRef{Benchmark: args[0]})
		if err != nil {
			return err
		}
		run, err := measuredBy(ctx, a, b, true)
		if err != nil {
			return err
		}
		if write == nil {
			return asJSON.print(a.out, must(json.Marshal(run)), nil)
		}
		text, err := write(run)
		if err != nil {
			return err
		}
		if json.Valid(text) {
			text = safeJSON(text)
		}
		_, err = a.foreign().Write(text)
		return err
	})
}

// measuredBy is a run with what it has measured.
func measuredBy(ctx context.Context, c apiv1.Client, b apiv1.Benchmark, samples bool) (all export.Run, err error) {
	of := apiv1.ListOfBenchmarkInput{BenchmarkRef: apiv1.BenchmarkRef{Benchmark: b.ID}}
	all.Benchmark = b
	if all.Series, err = apiv1.All(ctx, c, apiv1.ListBenchmarkSeries, of); err != nil {
		return all, err
	}
	if all.History, err = apiv1.All(ctx, c, apiv1.ListBenchmarkRounds, of); err != nil || !samples {
		return all, err
	}
	all.Samples, err = apiv1.All(ctx, c, apiv1.ListBenchmarkSteps, of)
	return all, err
}
