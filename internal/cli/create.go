package cli

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"
)

func (a *app) create() *cobra.Command {
	c := &cobra.Command{
		Use:   "create {-f FILE | NAME --nodes N}",
		Short: "Create a cluster",
		Long: `Create a cluster from a cluster file, or, without a file, from a name and a number of compute nodes; a head node to log in
to comes on top. The file is checked here first, then the controller reserves every machine or refuses at once and says
what is missing. The command returns when the cluster is accepted; --wait stays until it can be used.`,
		Example: `  muster create hello --nodes 3 --wait
  muster create -f cluster.yaml
  muster create -f cluster.yaml --dry-run`,
		Args: cobra.MaximumNArgs(1),
	}
	path := fileFlag(c)
	nodes := c.Flags().Int("nodes", 0, "with NAME instead of a file: `N` compute nodes")
	flags := changeFlags(c)
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		file, err := a.fileOrShorthand(*path, args, *nodes)
		if err != nil {
			return err
		}
		controller, err := a.connect()
		if err != nil {
			return err
		}
		return a.carryOut(ctx, controller, flags, file.send(http.MethodPost, "/v1/clusters"))
	})
	return c
}

func (a *app) fileOrShorthand(path string, args []string, nodes int) (clusterFile, error) {
	switch {
	case path != "" && (len(args) > 0 || nodes != 0):
		return clusterFile{}, usage("give either a file or NAME --nodes N: with -f FILE the name and the nodes are in the file")
	case path != "":
		return a.readFile(path)
	case len(args) == 0:
		return clusterFile{}, usage("say what to create: -f FILE, or NAME --nodes N")
	case nodes <= 0:
		return clusterFile{}, usage("say how many nodes: muster create %s --nodes N, with N from 1", args[0])
	}
	return shorthand(args[0], nodes)
}
