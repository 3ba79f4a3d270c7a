package cli

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) apply() *cobra.Command {
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create a cluster from a file, or change it to match the file",
		Long: `Compare a cluster file with the cluster of its name and change what differs, or create the cluster if there is none. Applying
the same file again changes nothing. ` + "`muster plan`" + ` prints beforehand what a change does to running jobs.

A new image is rolled out node by node: a node's jobs end first, then it is rebooted on its machine, and at most
update.max_unavailable nodes are down at once. A cluster keeps its build of an image; --refresh-image rolls out the newest build
of the same name.`,
		Example: `  muster apply -f cluster.yaml --wait
  muster apply -f cluster.yaml --drain-timeout 10m
  muster apply -f cluster.yaml --refresh-image --wait`,
		Args: cobra.NoArgs,
	}
	path := fileFlag(c)
	drain := drainFlag(c)
	refresh := refreshFlag(c)
	flags := changeFlags(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		file, err := a.readFile(*path)
		if err != nil {
			return err
		}
		return carryOut(ctx, a, flags, apiv1.ApplyCluster, file.apply(flags.request(*drain), bool(*refresh)))
	})
}
