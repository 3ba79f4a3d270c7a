package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) delete() *cobra.Command {
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a cluster with its /home",
		Long: `Delete a cluster with its jobs, its nodes and the files in its /home. Its machines return to the pool once it is proved that
nothing of the cluster is left on them; --wait waits for that and prints the receipt.`,
		Example: `  muster delete hello
  muster delete hello --wait`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	flags := &changing{waiting: waitFlags(c, "nothing of it is left"), output: formatFlag(c)}
	return a.verb(c, func(ctx context.Context, args []string) error {
		in := apiv1.DeleteClusterInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]}}
		return carryOut(ctx, a, flags, apiv1.DeleteCluster, in)
	})
}

// printReceipt is the proof of a cluster's end.
func (a *app) printReceipt(c apiv1.Cluster) {
	t := newTable()
	t.row("receipt for", c.Name+" ("+c.ID+")")
	t.row("machines returned", strings.Join(c.Receipt.Machines, ", "))
	t.row("held for", seconds(time.Duration(c.Receipt.Seconds*float64(time.Second))))
	t.fact("cost", coins(c.Cost))
	t.row("proved at", c.Receipt.At.Format(time.RFC3339))
	for _, g := range c.Receipt.Guests {
		t.row("guest "+g.Guest, "its memory and disks went with it; its part of "+g.Host+" is free again")
	}
	for _, r := range c.Receipt.Released {
		t.row("machine "+r.Machine, "power "+r.Release.Power)
		for _, d := range r.Release.Disks {
			t.row("  disk "+d.Disk, erased(d))
		}
	}
	t.print(a.out)
}

// erased says how a disk was erased, or that it was not.
func erased(d apiv1.Erased) string {
	if !d.OK {
		return "NOT ERASED: " + d.Error
	}
	return d.Method + "; " + d.Verified
}
