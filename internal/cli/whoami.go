package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"muster/internal/api"
)

func (a *app) whoami() *cobra.Command {
	c := &cobra.Command{
		Use:     "whoami",
		Short:   "Show who you are, and to which controller",
		Long:    `Ask the controller who your token says you are. This shows at once whether the controller is found and lets you in.`,
		Example: `  muster whoami`,
		Args:    cobra.NoArgs,
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, _ []string) error {
		controller, err := a.connect()
		if err != nil {
			return err
		}
		var site api.Site
		raw, err := controller.do(ctx, get("/v1/site", nil), &site)
		if err != nil {
			return err
		}
		return output.print(a.out, raw, func() {
			t := newTable()
			t.row("identity", site.Identity)
			t.row("project", site.Project)
			t.row("site", site.Site)
			t.row("controller", fmt.Sprintf("%s, version %s, found by %s", controller.base, site.Version, controller.source))
			t.print(a.out)
		})
	})
	return c
}
