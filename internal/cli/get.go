package cli

import (
	"context"

	"github.com/spf13/cobra"

	"muster/internal/api"
)

func (a *app) get() *cobra.Command {
	c := &cobra.Command{
		Use:   "get NAME",
		Short: "Print a cluster, for people in a line, for programs whole",
		Long: `Print one cluster by its name, or by its ID, which also finds deleted ones. With -o json or yaml it is the API's whole
object with spec, nodes and receipt.`,
		Example: `  muster get hello
  muster get hello -o yaml
  muster get hello -o json | jq -r .phase`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		controller, err := a.connect()
		if err != nil {
			return err
		}
		var cluster api.Cluster
		raw, err := controller.do(ctx, get(clusterPath(args[0]), nil), &cluster)
		if err != nil {
			return err
		}
		return output.print(a.out, raw, func() { a.printClusters([]api.Cluster{cluster}) })
	})
	return c
}
