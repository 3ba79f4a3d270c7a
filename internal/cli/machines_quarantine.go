package cli

import (
	"context"
	"muster/internal/apiv1"

	"github.com/spf13/cobra"
)

func (a *app) machinesQuarantine() *cobra.Command {
	c := &cobra.Command{
		Use:   "quarantine NAME…",
		Short: "Set machines apart now, and replace the nodes on them",
		Long: `Give machines up, whatever they do now: the node on each is ended and replaced on another machine, and its jobs are queued
again. The machine is inspected after its quarantine and comes back if it passes; ` + "`muster machines maintain NAME`" + ` keeps it out.

This is also the answer to an alarm (` + "`muster status`" + `) whose nodes are lost for good.`,
		Example: `  muster machines quarantine rack-3 --reason 'burnt smell'
  muster machines quarantine rack-1 rack-2 rack-3`,
	}
	reason := c.Flags().String("reason", "", "why, for whoever looks after the machine")
	a.forMachines(c, nil, nil, "is set apart", func(ctx context.Context, c *client, name string) (apiv1.Machine, error) {
		in := apiv1.QuarantineMachineInput{Machine: name, Body: apiv1.QuarantineMachineBody{Reason: *reason}}
		m, _, err := apiv1.QuarantineMachine.Call(ctx, c, in)
		return m, err
	})
	return c
}
