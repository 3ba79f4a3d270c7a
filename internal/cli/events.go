package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) events() *cobra.Command {
	c := &cobra.Command{
		Use:   "events [NAME]",
		Short: "Show what happened, to one cluster, to one machine or to all",
		Long: `Print the event log, oldest first: every phase of clusters, nodes and machines with its time and cause. With --watch, follow new
events until interrupted, across lost connections and restarts of the controller. Every event has a number; --after skips those
up to it. -o json prints one object per line with --watch, and one list without.`,
		Example: `  muster events hello
  muster events -w
  muster events --machine r1n7
  muster events hello --after 120 -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	watch := c.Flags().BoolP("watch", "w", false, "follow events as they happen")
	after := c.Flags().Int64("after", 0, "only events with numbers above `N`")
	var of whose
	c.Flags().StringVar(&of.machine, "machine", "", "only events of this `MACHINE`")
	_ = c.RegisterFlagCompletionFunc("machine", a.completeAll(a.machineNames))
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if of.machine != "" && len(args) > 0 {
			return usage("give either a cluster's name or --machine")
		}
		if *after < 0 {
			return usage("--after must be the number of an event, not %d", *after)
		}
		if *watch && *output == asYAML {
			return usage("-o yaml and --watch do not go together; -o json prints one object a line")
		}
		if len(args) > 0 {
			of.cluster = args[0]
		}
		if *watch && len(args) > 0 {
			// by its ID it is still found when it is deleted meanwhile
			cluster, _, err := apiv1.GetCluster.Call(ctx, a, apiv1.ClusterRef{Cluster: args[0]})
			if err != nil {
				return err
			}
			of.cluster = cluster.ID
		}
		if *watch {
			return a.watch(ctx, &stream{app: a, of: of, after: *after, pause: a.timing.look}, *output)
		}
		if of.cluster != "" {
			return showAll(ctx, a, apiv1.ListClusterEvents, clusterEvents(of.cluster, *after), *output, a.printEvents)
		}
		in := apiv1.ListEventsInput{Machine: of.machine, EventsInput: apiv1.EventsInput{After: *after}}
		return showAll(ctx, a, apiv1.ListEvents, in, *output, a.printEvents)
	})
}

func (a *app) printEvents(events []apiv1.Event) {
	t := newTable("NUMBER", "TIME", "CLUSTER", "WHO", "EVENT")
	for _, e := range events {
		t.row(strconv.FormatInt(e.Seq, 10), localTime(e.At), e.Cluster, who(e), what(e))
	}
	t.print(a.out)
}

// clusterEvents asks for those with higher numbers.
func clusterEvents(cluster string, after int64) apiv1.ListClusterEventsInput {
	return apiv1.ListClusterEventsInput{ClusterRef: apiv1.ClusterRef{Cluster: cluster},
		EventsInput: apiv1.EventsInput{After: after}}
}

// watch prints events until the user has seen enough.
func (a *app) watch(ctx context.Context, s *stream, f format) error {
	told := false
	s.lost = func(err error) {
		if err != nil && !told {
			a.say("%v; trying again", err)
		}
		told = true
	}
	err := s.run(ctx, func(e apiv1.Event, raw []byte) error {
		told = false
		if f == asJSON {
			_, err := a.out.raw().Write(append(safeJSON(raw), '\n'))
			return err
		}
		a.out.line("%-6d  %s  %-12s  %-12s  %s", e.Seq, localTime(e.At), e.Cluster, who(e), what(e))
		return nil
	})
	if errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// localTime is a time as the user's own clock shows it.
func localTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }

// who is what an event is about: a node with its machine, a machine, the cluster itself, or what else the site has: a fabric, a
// project.
func who(e apiv1.Event) string {
	switch {
	case e.Node != "":
		return e.Node
	case e.Machine != "":
		return e.Machine
	case e.Cluster == "":
		kind, _, _ := strings.Cut(e.Type, ".")
		return kind
	}
	return "cluster"
}

// what is the event itself.
func what(e apiv1.Event) string {
	switch {
	case e.Phase == "":
		return e.Text
	case e.Text == "":
		return string(e.Phase)
	}
	return string(e.Phase) + ": " + e.Text
}
