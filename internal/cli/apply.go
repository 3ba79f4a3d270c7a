package cli

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"
)

func (a *app) apply() *cobra.Command {
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make a cluster be as its file says, new or not",
		Long: `Compare a cluster file with the cluster of its name and change what differs, or create the cluster if there is none. Applying
the same file again changes nothing. What a change does to running jobs is printed by ` + "`muster plan`" + ` before.`,
		Example: `  muster apply -f cluster.yaml --wait
  muster apply -f cluster.yaml --drain-timeout 10m`,
		Args: cobra.NoArgs,
	}
	path := fileFlag(c)
	drain := drainFlag(c)
	flags := changeFlags(c)
	c.RunE = a.do(func(ctx context.Context, _ []string) error {
		file, err := a.readFile(*path)
		if err != nil {
			return err
		}
		controller, err := a.connect()
		if err != nil {
			return err
		}
		r := file.send(http.MethodPut, clusterPath(file.doc.Cluster.Name))
		r.query = drain.query()
		return a.carryOut(ctx, controller, flags, r)
	})
	return c
}
