package cli

import (
	"context"

	"github.com/spf13/cobra"

	"muster/internal/drivers"
	"muster/internal/hostd"
)

func (a *app) host() *cobra.Command {
	return &cobra.Command{
		Use:    hostd.Verb,
		Hidden: true, // no user types it
		Short:  "Run as the agent of a controller's own host",
		Long: `Run as the agent of a controller's own host: make and end nodes, networks and file systems as the controller asks. The
controller starts it, and it ends with the controller; nodes go on running.`,
		Example: `  muster host`,
		Args:    cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			return hostd.Beside(ctx, drivers.Substrates(), a.err.raw())
		}),
	}
}
