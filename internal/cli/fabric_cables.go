package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/words"
)

func (a *app) fabricCables() *cobra.Command {
	return group(&cobra.Command{
		Use:   "cables",
		Short: "Import how fabrics are cabled, for placement",
		Long: `With a snapshot of a fabric's cables, nodes are placed by leaf switch and hops. If Muster manages the fabric's partitions,
` + "`muster fabric import`" + ` imports the cables too; these commands are for all other fabrics, Ethernet included.`,
		Example: `  ibnetdiscover > ib0.txt && muster fabric cables import ib0 ib0.txt
  muster fabric cables list`,
	}, a.cablesImport(), a.cablesList(), a.cablesForget())
}

func (a *app) cablesImport() *cobra.Command {
	c := &cobra.Command{
		Use:   "import NAME FILE",
		Short: "Import how a fabric is cabled",
		Long: `Import the output of ibnetdiscover or, for Ethernet, of "lldpctl -f keyvalue" on machines, each after a line "machine=NAME" with
its name in the inventory. An import replaces the one before. Import a fabric whose partitions Muster manages with "muster fabric
import".`,
		Example: `  muster fabric cables import ib0 ib0.txt
  for m in n01 n02; do echo machine=$m; ssh $m lldpctl -f keyvalue; done > eth0.txt; muster fabric cables import eth0 eth0.txt`,
		Args: cobra.ExactArgs(2),
	}
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		text, err := os.ReadFile(args[1])
		if err != nil {
			return fmt.Errorf("read the snapshot: %w", err)
		}
		in := apiv1.PutTopologyInput{Fabric: args[0], Body: apiv1.PutTopologyBody{Snapshot: string(text)}}
		return show(ctx, a, apiv1.PutTopology, in, *output, func(t apiv1.Topology) {
			machines := 0
			for _, l := range t.Leaves {
				machines += len(l.Machines)
			}
			a.say("fabric %s: %s; %s of the inventory on %d", t.Fabric, t.Summary, words.Count(machines, "machine"),
				len(t.Leaves))
		})
	})
}

func (a *app) cablesList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "Show which machines are on which leaf switch",
		Long:    `Show the leaf switches of all imported fabrics, with their machines and their cables to other switches.`,
		Example: `  muster fabric cables list`,
		Args:    cobra.NoArgs,
	}
	return listing(a, c, apiv1.ListTopologies, &apiv1.Page{}, func(known []apiv1.Topology) {
		if len(known) == 0 {
			a.say("no cables are known; `muster fabric cables import` imports them")
			return
		}
		t := newTable("FABRIC", "LEAF", "CABLES", "MACHINES", "NAMES")
		for _, f := range known {
			if len(f.Leaves) == 0 {
				t.row(f.Fabric, "", "", "0", "("+f.Summary+"; none is a machine of the inventory)")
			}
			for _, l := range f.Leaves {
				t.row(f.Fabric, l.Name, strconv.Itoa(l.Cables), strconv.Itoa(len(l.Machines)), strings.Join(l.Machines, ","))
			}
		}
		t.print(a.out)
	})
}

func (a *app) cablesForget() *cobra.Command {
	c := &cobra.Command{
		Use:     "forget NAME",
		Short:   "Forget how a fabric is cabled",
		Long:    `Forget a fabric's snapshot. Existing nodes stay; new ones are placed without it.`,
		Example: `  muster fabric cables forget eth0`,
		Args:    cobra.ExactArgs(1),
	}
	var ref apiv1.RemoveTopologyInput
	return doing(a, c, apiv1.RemoveTopology, &ref, "the cables of fabric %s are forgotten", &ref.Fabric)
}
