package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
)

func (a *app) benchHistory() *cobra.Command {
	c := &cobra.Command{
		Use:   "history [NAME]",
		Short: "Show how what was measured went on over time",
		Long: `Show, for each quantity that runs have measured on a cluster, how it went on: a value is what one run came to. Values are beside
each other if the same recipe measured them with the same parameters on nodes of one kind. With --machine, values of one machine
alone. Without a cluster, operators see a machine in all clusters, or a class.

With --suite and --after, runs of a suite on a cluster are beside each other: the first, and those that ended nearest to so long
after the one before, no further off than half of it. So 2d,2h,7d shows what else uses a network, by day, hour and week.

A change is told once the last four runs show it: values are on another level, by 5 % or more.`,
		Example: `  muster bench history hello
  muster bench history hello --machine local-2
  muster bench history hello --suite paper-002 --after 2d,2h,7d
  muster bench history --class compute --quantity triad`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	var of apiv1.ListTrendsInput
	c.Flags().StringVar(&of.Machine, "machine", "", "what was measured on the machine of this `NAME` alone")
	c.Flags().StringVar(&of.Class, "class", "", "what was measured on the machines of this `CLASS`")
	c.Flags().StringVar(&of.Quantity, "quantity", "", "only this `QUANTITY`")
	suite := c.Flags().String("suite", "", "with --after: of runs of the suite of this `NAME`")
	_ = c.RegisterFlagCompletionFunc("suite", a.completeAll(a.suiteNames))
	after := c.Flags().String("after", "", "the first run, and those that ended so long (`TIMES`) after the one before, as 2d,2h,7d")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		name := strings.Join(args, "")
		if *suite != "" || *after != "" {
			if name == "" || *suite == "" || *after == "" || of.Class != "" {
				return usage("--suite and --after go together, and are of a cluster")
			}
			pauses, err := pausesIn(*after)
			if err != nil {
				return err
			}
			in := apiv1.ListClusterTrendsInput{Machine: of.Machine, Quantity: of.Quantity}
			in.Cluster = name
			return a.printTimes(ctx, in, *suite, pauses, *output)
		}
		switch {
		case name != "" && of.Class != "" || name == "" && (of.Machine == "") == (of.Class == ""):
			return usage("history is of a cluster, perhaps on one machine, or else of a machine or a class")
		case name != "":
			in := apiv1.ListClusterTrendsInput{Machine: of.Machine, Quantity: of.Quantity}
			in.Cluster = name
			return showAll(ctx, a, apiv1.ListClusterTrends, in, *output, a.printTrends)
		default:
			return showAll(ctx, a, apiv1.ListTrends, of, *output, a.printTrends)
		}
	})
}

func (a *app) printTrends(all []apiv1.BenchmarkTrend) {
	names := export.Names{}
	for _, t := range all {
		names.Add(t.Recipe, t.Quantity, t.Parameters)
	}
	table := newTable("RECIPE", "QUANTITY", "RUNS", "LEAST", "MOST", "LAST", "UNIT", "LAST RUN", "CHANGED")
	for _, t := range all {
		values := lists.Map(t.Points, func(p apiv1.BenchmarkPoint) float64 { return p.Value })
		if len(values) == 0 {
			continue
		}
		last, changed := t.Points[len(t.Points)-1], ""
		if n := len(t.Changes); n > 0 {
			changed = changeText(t.Changes[n-1])
		}
		table.row(t.Recipe, names.Of(t.Recipe, t.Quantity, t.Parameters, t.Labels), len(values), words.Figure(slices.Min(values)),
			words.Figure(slices.Max(values)), words.Figure(last.Value), t.Unit, last.Run, changed)
	}
	table.print(a.out)
}

// changeText is when a change was, and what it was.
func changeText(c apiv1.BenchmarkChange) string {
	return c.At.Local().Format(time.DateTime) + ": " + words.Figure(c.Was) + " → " + words.Figure(c.Became) +
		textIf(c.Worse, ", worse")
}

func (a *app) benchChanges() *cobra.Command {
	c := &cobra.Command{
		Use:   "changes",
		Short: "List what has changed in what is measured",
		Long: `List the changes that were seen in the history of your clusters, for operators also of machines and classes, the newest last:
since which run, and what else was another thing then, such as a kernel, an image or a machine. That is no proof of the cause.

Changes for the worse are an alarm in ` + "`muster status`" + ` until they are accepted, or the values change again.`,
		Example: `  muster bench changes
  muster bench changes --worse`,
		Args: cobra.NoArgs,
	}
	standing := c.Flags().Bool("worse", false, "only for the worse, and not accepted")
	return showing(a, c, apiv1.ListChanges, &apiv1.Nothing{}, func(list apiv1.List[apiv1.BenchmarkChange]) {
		table := newTable("CHANGE", "OF", "WHAT", "SINCE", "RUN", "WHAT ELSE CHANGED", "ACCEPTED BY").whole()
		for _, c := range slices.Backward(list.Items) {
			if *standing && (!c.Worse || c.Accepted != "") {
				continue
			}
			whose := cmp.Or(strings.TrimPrefix("machine "+c.Machine, "machine "), c.Cluster, "class "+c.Class)
			table.row(c.ID, whose, c.Text, changeText(c), c.Run, words.Few(c.Causes), c.Accepted)
		}
		table.print(a.out)
	})
}

func (a *app) benchAccept() *cobra.Command {
	c := &cobra.Command{
		Use:   "accept CHANGE",
		Short: "Take a change as it is",
		Long: `Take a change as it is, and those before it of the same cluster, machine or class: they are no alarm any more. Changes of
clusters are their project's to accept; those of machines and classes are the operators'.`,
		Example: `  muster bench accept h0123456789`,
		Args:    cobra.ExactArgs(1),
	}
	var ref apiv1.ChangeRef
	return showing(a, c, apiv1.AcceptChange, &ref,
		func(change apiv1.BenchmarkChange) { a.say("%s: accepted", change.Text) }, &ref.Change)
}
