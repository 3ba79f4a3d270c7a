package cli

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) machinesQuarantine() *cobra.Command {
	c := &cobra.Command{
		Use:   "quarantine NAME…",
		Short: "Quarantine machines now, and replace the nodes on them",
		Long: `Give machines up, whatever they do now: the node on each is ended and replaced on another machine, and its jobs are requeued.
The machine is inspected after its quarantine and returns if it passes; ` + "`muster machines maintain NAME`" + ` keeps it out.

Use this also after an alarm (` + "`muster status`" + `) whose nodes are lost for good.`,
		Example: `  muster machines quarantine rack-3 --reason 'burnt smell'
  muster machines quarantine rack-1 rack-2 rack-3`,
	}
	reason := c.Flags().String("reason", "", "why, for the site's operators")
	ask := func(ctx context.Context, c apiv1.Client, name string) (apiv1.Machine, error) {
		in := apiv1.QuarantineMachineInput{Machine: name, Body: apiv1.QuarantineMachineBody{Reason: *reason}}
		m, _, err := apiv1.QuarantineMachine.Call(ctx, c, in)
		return m, err
	}
	return a.forMachines(c, nil, nil, "is quarantined", ask)
}
