package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) validate() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check a cluster file, without a controller",
		Long: `Check a cluster file here, without asking a controller: everything that is wrong is printed with its line and column, what
would work, and exit code 2. Whether the site has the classes, the image and the machines is told by ` + "`muster plan`" + `.`,
		Example: `  muster validate -f cluster.yaml
  muster validate -f - < cluster.yaml`,
		Args: cobra.NoArgs,
	}
	path := fileFlag(c)
	c.RunE = a.do(func(context.Context, []string) error {
		file, err := a.readFile(*path)
		if err != nil {
			return err
		}
		a.say("%s is a valid cluster file", file.name)
		return nil
	})
	return c
}
