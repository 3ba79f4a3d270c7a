package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) rollout() *cobra.Command {
	c := &cobra.Command{
		Use:   "rollout",
		Short: "Continue a rollout that has stopped, or roll back",
		Long: `A rollout changes the image of a cluster's nodes, a few nodes at a time. ` + "`muster apply`" + ` starts it. It
stops by itself when a node fails to start with the new image; ` + "`muster describe`" + ` shows why.`,
		Example: `  muster rollout back cfd --wait
  muster rollout resume cfd`,
	}
	resume := a.rolloutVerb("resume", "Continue a rollout that has stopped",
		`Continue a rollout that has stopped: the next node is rebooted with the new image. If it fails too, the rollout stops again.`)
	back := a.rolloutVerb("back", "Return to the image that the cluster was last ready with",
		`Return to the exact build of the image with which all of the cluster was last ready, whether the rollout is running or has
stopped. Nodes that already have the new image are rebooted, a few at a time, as in any rollout.`)
	return group(c, resume, back)
}

func (a *app) rolloutVerb(action, short, long string) *cobra.Command {
	c := &cobra.Command{
		Use:               action + " NAME",
		Short:             short,
		Long:              long,
		Example:           "  muster rollout " + action + " cfd --wait",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	drain := drainFlag(c)
	flags := changeFlags(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		in := apiv1.ChangeRolloutInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]}, Request: flags.request(*drain),
			Body: apiv1.ChangeRolloutBody{Action: action}}
		return carryOut(ctx, a, flags, apiv1.ChangeRollout, in)
	})
}

// refreshImage asks for the newest build of an image.
type refreshImage bool

func refreshFlag(c *cobra.Command) *refreshImage {
	r := new(refreshImage)
	c.Flags().BoolVar((*bool)(r), "refresh-image", false, "roll out the newest build of the file's image")
	return r
}

// printSteps prints what happens to the nodes that are there, in the order in which it does.
func (a *app) printSteps(steps []apiv1.Step) {
	t := newTable("NODE", "ACTION", "WAVE", "WHEN", "WHY")
	for _, s := range steps {
		t.row(s.Node, s.Action, strconv.Itoa(s.Wave), s.When, s.Why)
	}
	t.printBelow(a.out)
}

// rebooting counts the nodes that reboot.
func rebooting(steps []apiv1.Step) int {
	n := 0
	for _, s := range steps {
		if s.Action == "reboot" {
			n++
		}
	}
	return n
}
