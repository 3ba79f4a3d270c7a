package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/drivers"
	"muster/internal/spec"
)

func (a *app) machinesImport() *cobra.Command {
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Enrol the machines of a list",
		Long: `Enrol the whole machines that a CSV file lists, as a vendor delivers it or ` + "`muster rack up`" + ` writes it: all of them or, if anything is
wrong, none. The first line names the columns:

  name         of the machine
  macs         of its NICs on the network that it boots from, separated by spaces
  network      that it boots from; may be left out if there is only one
  power        how it is switched: ` + drivers.Power().Usages() + `
  credentials  where the controller finds user:password: secret:NAME or env:BMC…; never the password itself
  ports        of the network's switch, one for each MAC, separated by spaces; needed if the network has a switch that Muster sets
  rack, unit, height, slot
               where it stands: the rack, the lowest unit that it fills, how many it fills (1), its slot in a chassis; may be left out

Semicolons or tabs may separate the columns, as some spreadsheets have it. A FILE of - is standard input.`,
		Example: `  muster machines import rack.csv
  muster machines import rack.csv --wait`,
		Args: cobra.ExactArgs(1),
	}
	waits := waitFlags(c, "they are available")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		name, text, err := a.readText("the list of machines", args[0])
		if err != nil {
			return err
		}
		list, err := readMachines(name, text)
		if err != nil {
			return err
		}
		return list.place(a.enrol(ctx, list.machines, waits, output))
	})
}

// enrol adds whole machines.
func (a *app) enrol(ctx context.Context, machines []apiv1.NewMachine, waits *waiting, output *format) error {
	if _, err := a.connect(); err != nil { // before secrets are copied for it
		return err
	}
	if err := a.onlyNetwork(ctx, machines); err != nil {
		return err
	}
	if err := a.namedSecrets(machines); err != nil {
		return err
	}
	return a.addMachines(ctx, apiv1.AddMachinesBody{Substrate: spec.IsolationMetal, Machines: machines}, waits, output)
}

// onlyNetwork fills in the network where there is no choice.
func (a *app) onlyNetwork(ctx context.Context, machines []apiv1.NewMachine) error {
	if !slices.ContainsFunc(machines, func(m apiv1.NewMachine) bool { return m.Network == "" }) {
		return nil
	}
	networks, err := apiv1.All(ctx, a, apiv1.ListNetworks, apiv1.Page{})
	if err != nil {
		return err
	}
	switch len(networks) {
	case 0:
		return usage("there is no network to boot from; `muster networks add` declares one")
	case 1:
	default:
		return usage("there are several networks: say which the machines boot from")
	}
	for i := range machines {
		if machines[i].Network == "" {
			machines[i].Network = networks[0].Name
		}
	}
	return nil
}
