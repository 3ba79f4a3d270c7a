package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) validate() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check a cluster file, without a controller",
		Long: `Check a cluster file without asking a controller. Every error is printed with its line, its column and what would work; the exit
code is then 2. ` + "`muster plan`" + ` checks whether the site has the classes, the image and the machines.`,
		Example: `  muster validate -f cluster.yaml
  muster validate -f - < cluster.yaml`,
		Args: cobra.NoArgs,
	}
	path := fileFlag(c)
	return a.verb(c, func(context.Context, []string) error {
		if _, err := a.readFile(*path); err != nil {
			return err
		}
		a.say("%s is a valid cluster file", a.file)
		return nil
	})
}
