package cli

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/inventory"
)

func (a *app) machinesPlace() *cobra.Command {
	c := &cobra.Command{
		Use:   "place NAME {--rack RACK --unit N | --nowhere}",
		Short: "Say where a machine stands",
		Long: `Say in which rack a machine stands, for the console, which draws the racks. ` + "`muster machines import`" + ` reads it from the list of
machines. Two machines cannot stand at one place. Several machines in one chassis have the chassis' units, and a slot each.`,
		Example: `  muster machines place r1n1 --rack r01 --unit 12
  muster machines place r1n2 --rack r01 --unit 14 --height 2 --slot 3
  muster machines place r1n3 --nowhere`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.machineNames),
	}
	var at apiv1.Location
	c.Flags().StringVar(&at.Rack, "rack", "", "the `RACK` that it stands in")
	c.Flags().IntVar(&at.Unit, "unit", 0, "the lowest `UNIT` that it fills, from the floor, from 1")
	c.Flags().IntVar(&at.Height, "height", 1, "the `N` units that it fills")
	c.Flags().IntVar(&at.Slot, "slot", 0, "its `SLOT` in a chassis that fills these units, from 1")
	nowhere := c.Flags().Bool("nowhere", false, "it stands in no rack that is known")
	c.MarkFlagsOneRequired("rack", "nowhere")
	c.MarkFlagsRequiredTogether("rack", "unit")
	for _, of := range []string{"rack", "unit", "height", "slot"} {
		c.MarkFlagsMutuallyExclusive("nowhere", of)
	}
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if !*nowhere && (at.Rack == "" || at.Unit < 1) {
			return usage("--rack names a rack, and --unit counts from 1")
		}
		in := apiv1.PlaceMachineInput{Machine: args[0]}
		if !*nowhere {
			in.Body.Location = &at
		}
		return show(ctx, a, apiv1.PlaceMachine, in, *output, func(m apiv1.Machine) {
			a.say("machine %s stands in %s", m.Name, locationText(m.Location))
		})
	})
}

func locationText(l *apiv1.Location) string {
	if l == nil {
		return inventory.Location{}.String()
	}
	return inventory.Location(*l).String()
}
