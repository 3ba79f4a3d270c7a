package cli

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

func (a *app) create() *cobra.Command {
	c := &cobra.Command{
		Use:   "create {-f FILE | NAME --nodes N | NAME --from-snapshot SNAPSHOT}",
		Short: "Create a cluster",
		Long: `Create a cluster from a cluster file, or, without a file, from a name and a number of compute nodes; a head node to log in
to is added. The file is checked here first; then the controller reserves all machines, or refuses at once and says what is
missing. The command returns when the cluster is accepted; with --wait, when it is ready.

A cluster created with --from-snapshot starts with the saved /home and job queue, and with new keys.`,
		Example: `  muster create hello --nodes 3 --wait
  muster create try --nodes 2 --for 2h --on-end delete
  muster create -f cluster.yaml
  muster create -f cluster.yaml --dry-run
  muster create copy --from-snapshot before-upgrade --wait`,
		Args: cobra.MaximumNArgs(1),
	}
	path := fileFlag(c)
	nodes := c.Flags().Int("nodes", 0, "with NAME instead of a file: `N` compute nodes")
	var lease spec.Lease
	c.Flags().StringVar(&lease.Start, "start", "", "with NAME: the `TIME` when it starts, in RFC 3339 or as +2h (default: now)")
	c.Flags().StringVar(&lease.For, "for", "", "with NAME: the `TIME` that it runs, such as 5d (default: the site's)")
	c.Flags().StringVar(&lease.OnEnd, "on-end", "",
		"with NAME: `WHAT` happens at the end of that time: pause or delete (default: pause)")
	snapshot := c.Flags().String("from-snapshot", "",
		"start from this `SNAPSHOT`; with NAME alone, use the saved cluster's file too")
	flags := changeFlags(c)
	c.ValidArgsFunction = cobra.NoFileCompletions
	return a.verb(c, func(ctx context.Context, args []string) error {
		copied := *snapshot != "" && *path == "" && *nodes == 0 && len(args) == 1
		var file clusterFile
		var err error
		if copied {
			file, err = a.fromSnapshot(ctx, *snapshot, args[0], given(lease))
		} else {
			file, err = a.fileOrShorthand(*path, args, *nodes, lease)
		}
		if err != nil {
			return err
		}
		in := apiv1.CreateClusterInput{FileInput: apiv1.FileInput{Request: flags.request(0), RawBody: file.text},
			FromSnapshot: *snapshot}
		return carryOut(ctx, a, flags, apiv1.CreateCluster, in)
	})
}

func (a *app) fileOrShorthand(path string, args []string, nodes int, lease spec.Lease) (clusterFile, error) {
	switch {
	case path != "" && (len(args) > 0 || nodes != 0 || lease != spec.Lease{}):
		return clusterFile{}, usage("give either a file or NAME --nodes N: with -f FILE the name, the nodes and the lease are " +
			"in the file")
	case path != "":
		return a.readFile(path)
	case len(args) == 0:
		return clusterFile{}, usage("say what to create: -f FILE, or NAME --nodes N")
	case nodes <= 0:
		return clusterFile{}, usage("say how many nodes: muster create %s --nodes N, with N from 1", args[0])
	}
	return unwritten(spec.Cluster{Name: args[0], Nodes: nodes, Lease: given(lease)})
}

// given says that the lease has at least one setting.
func given(l spec.Lease) *spec.Lease {
	if l == (spec.Lease{}) {
		return nil
	}
	return &l
}
