package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

func (a *app) extend() *cobra.Command {
	c := &cobra.Command{
		Use:   "extend NAME --for TIME | --until TIME",
		Short: "Move the end of a cluster's lease",
		Long: `Let a cluster run longer: --for a time that is added to its end (to now, if the end has passed), or --until a new end. Nothing
restarts. If the machines are reserved for somebody else then, it is refused with the longest time that fits (exit code 3); if
the site does not allow leases that long, with exit code 2.

To continue a cluster that was paused at the end of its lease, extend it, then resume it.`,
		Example: `  muster extend cfd --for 2d
  muster extend cfd --until 2027-03-01T08:00:00Z
  muster extend cfd --for 1w --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	longer := c.Flags().String("for", "", "the `TIME` to add, as in a cluster file, such as 2d")
	until := c.Flags().String("until", "", "the new end: a `TIME` in RFC 3339, or +2d from now")
	dryRun := c.Flags().Bool("dry-run", false, "check whether it fits, and change nothing")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if (*longer == "") == (*until == "") {
			return usage("say how much longer with --for, or the new end with --until")
		}
		in := apiv1.ExtendClusterInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]}, Request: apiv1.Request{DryRun: *dryRun},
			Body: apiv1.ExtendClusterBody{For: *longer, Until: *until}}
		answer, raw, err := apiv1.ExtendCluster.Call(ctx, a, in)
		if err != nil {
			return err
		}
		if *dryRun {
			return output.print(a.out, raw, func() { a.printPlan(answer.Plan) })
		}
		if answer.Cluster == nil {
			return fmt.Errorf("the answer to %s %s has no cluster", apiv1.ExtendCluster.Method, apiv1.ExtendCluster.Path)
		}
		a.say("cluster %s %s", answer.Cluster.Name, leaseWords(answer.Cluster.Lease))
		return output.print(a.out, raw, func() {})
	})
}

// leaseWords says when a cluster starts and ends: "ends in 3h12m (Tue 2026-11-24 14:20 UTC), then pauses".
func leaseWords(l apiv1.Term) string {
	if ahead := time.Until(l.StartsAt); ahead > 0 {
		text := fmt.Sprintf("starts in %s (%s)", short(ahead), spec.When(l.StartsAt))
		if !l.EndsAt.IsZero() {
			text += fmt.Sprintf(", for %s, then %s", short(l.EndsAt.Sub(l.StartsAt)), afterwards(l))
		}
		return text
	}
	left := time.Until(l.EndsAt)
	switch {
	case l.EndsAt.IsZero():
		return "has no end"
	case left > 0:
		return fmt.Sprintf("ends in %s (%s), then %s", short(left), spec.When(l.EndsAt), afterwards(l))
	}
	return "ended at " + spec.When(l.EndsAt)
}

func afterwards(l apiv1.Term) string {
	if l.OnEnd == apiv1.ToDelete {
		return "is deleted"
	}
	return "pauses"
}

// leaseBrief is leaseWords for a column.
func leaseBrief(l apiv1.Term) string {
	if ahead := time.Until(l.StartsAt); ahead > 0 {
		return "starts in " + short(ahead)
	}
	left := time.Until(l.EndsAt)
	switch {
	case l.EndsAt.IsZero():
		return ""
	case left > 0:
		return "ends in " + short(left)
	}
	return "ended"
}
