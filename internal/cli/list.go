package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/lists"
)

func (a *app) list() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List clusters",
		Long: `List the clusters of your projects, or all as an operator, with their phase, how many of their compute nodes are
ready, and why a cluster is not ready. Deleted clusters are not listed; ` + "`muster get ID`" + ` still finds them. Registered
clusters that Muster did not build follow, unless --project or --phase is given, with the queues that your projects may use; for
json or yaml of those, use ` + "`muster clusters list`" + `.`,
		Example: `  muster list
  muster list --project aero --phase degraded
  muster list -o json`,
		Args: cobra.NoArgs,
	}
	var in apiv1.ListClustersInput
	c.Flags().StringVar(&in.Project, "project", "", "only clusters of this `PROJECT`")
	_ = c.RegisterFlagCompletionFunc("project", a.completeAll(a.projectNames))
	phaseFlag(c, &in.Phase, cluster.Kind)
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		if *output != asTable || in != (apiv1.ListClustersInput{}) {
			return showAll(ctx, a, apiv1.ListClusters, in, *output, func(clusters []apiv1.Cluster) {
				if len(clusters) == 0 {
					a.say("no cluster that you may see fits these filters")
					return
				}
				a.printClusters(clusters)
			})
		}
		clusters, err := apiv1.All(ctx, a, apiv1.ListClusters, in)
		if err != nil {
			return err
		}
		externals, err := apiv1.All(ctx, a, apiv1.ListExternalClusters, apiv1.Page{})
		if err != nil {
			return err
		}
		a.printClusters(clusters)
		if len(externals) > 0 {
			a.out.gap()
			a.printExternals(externals)
		}
		return nil
	})
}

func (a *app) printClusters(clusters []apiv1.Cluster) {
	if len(clusters) == 0 {
		a.say("there are no clusters; `muster create NAME --nodes N` makes one")
		return
	}
	projects := lists.SetBy(clusters, func(c apiv1.Cluster) string { return c.Project })
	t := newTable("NAME", "PROJECT", "PHASE", "FOR", "READY", "AGE", "LEASE", "PRICE/H", "REASON")
	for _, c := range clusters {
		ready, of := 0, 0
		for _, n := range c.Nodes {
			if n.Role == apiv1.RoleHead {
				continue
			}
			of++
			if n.Phase == apiv1.Ready {
				ready++
			}
		}
		t.row(c.Name, textIf(len(projects) > 1, c.Project), a.phase(c.Phase), age(c.Since), fmt.Sprintf("%d/%d", ready, of),
			age(c.CreatedAt), leaseBrief(c.Lease), c.Price, c.Reason)
	}
	t.print(a.out)
}

// phase is a phase in its colour.
func (a *app) phase(p apiv1.Phase) shown { return a.paint(a.out, phaseColour(p), string(p)) }
