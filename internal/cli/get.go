package cli

import (
	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) get() *cobra.Command {
	c := &cobra.Command{
		Use:   "get NAME",
		Short: "Print a cluster: one line, or all of it as json or yaml",
		Long: `Print one cluster by its name, or by its ID, which also finds deleted ones. -o json or yaml prints the whole API
object with spec, nodes and receipt.`,
		Example: `  muster get hello
  muster get hello -o yaml
  muster get hello -o json | jq -r .phase`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	var ref apiv1.ClusterRef
	return showing(a, c, apiv1.GetCluster, &ref,
		func(cluster apiv1.Cluster) { a.printClusters([]apiv1.Cluster{cluster}) }, &ref.Cluster)
}
