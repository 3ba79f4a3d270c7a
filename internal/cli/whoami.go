package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) whoami() *cobra.Command {
	c := &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are, and to which controller",
		Long: `Show who you are to the controller: your name, your roles in projects, and what your token is limited to. Use it
to check that the controller is found and accepts you.`,
		Example: `  muster whoami`,
		Args:    cobra.NoArgs,
	}
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		controller, err := a.connect()
		if err != nil {
			return err
		}
		return show(ctx, a, apiv1.GetSite, apiv1.Nothing{}, *output, func(site apiv1.Site) { a.printIdentity(site, controller) })
	})
}

func (a *app) printIdentity(site apiv1.Site, c *client) {
	t := newTable()
	t.row("identity", site.Identity+textIf(site.Operator, ", an operator of the site"))
	var roles []string
	for _, project := range slices.Sorted(maps.Keys(site.Roles)) {
		roles = append(roles, fmt.Sprintf("%s of %s", site.Roles[project], project))
	}
	t.row("projects", cmp.Or(strings.Join(roles, ", "), "none: an operator or a project's owner can add you to one"))
	t.row("default", site.Project)
	t.fact("token", tokenLimits(site.Scope, site.Only, site.ExpiresAt))
	t.row("site", site.Site)
	t.row("controller", fmt.Sprintf("%s, version %s, found by %s", c.base, site.Version, c.source))
	t.print(a.out)
}

// tokenLimits is what a token may less than its person; "" if it may as much, for ever.
func tokenLimits(scope apiv1.Scope, project string, until time.Time) string {
	var limits []string
	if scope == apiv1.ScopeRead {
		limits = append(limits, "read-only")
	}
	if project != "" {
		limits = append(limits, "for project "+project+" only")
	}
	if !until.IsZero() {
		limits = append(limits, "good for "+short(time.Until(until)))
	}
	return strings.Join(limits, ", ")
}
