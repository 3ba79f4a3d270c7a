package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Long:    `Print the version of this program. The controller's may differ: ` + "`muster whoami`" + ` shows it.`,
		Example: `  muster version`,
		Args:    cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			a.out.line("muster %s", Version())
			return nil
		}),
	}
}
