package cli

import (
	"context"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"muster/internal/api"
)

func (a *app) quota() *cobra.Command {
	c := &cobra.Command{
		Use:   "quota [PROJECT]",
		Short: "Show what a project may hold and what it holds",
		Long: `Show a project's quota of nodes, cores and GPUs with what its clusters hold of it now, and its budget and node-hours of this
month. Without PROJECT it is the site's default project. Heads are nodes too; nodes that a queue is always to have count also
while they are missing.`,
		Example: `  muster quota
  muster quota aero -o json`,
		Args: cobra.MaximumNArgs(1),
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		controller, err := a.connect()
		if err != nil {
			return err
		}
		var site api.Site
		if len(args) == 0 {
			if _, err := controller.do(ctx, get("/v1/site", nil), &site); err != nil {
				return err
			}
			args = []string{site.Project}
		}
		var quota api.Quota
		raw, err := controller.do(ctx, get("/v1/projects/"+url.PathEscape(args[0])+"/quota", nil), &quota)
		if err != nil {
			return err
		}
		return output.print(a.out, raw, func() { a.printQuota(quota) })
	})
	return c
}

func (a *app) printQuota(q api.Quota) {
	t := newTable("PROJECT "+q.Project, "USED", "LIMIT", "LEFT")
	share := func(what string, s api.Share) {
		if s.Limit == nil {
			t.row(what, strconv.Itoa(s.Used), "none", "")
			return
		}
		t.row(what, strconv.Itoa(s.Used), strconv.Itoa(*s.Limit), strconv.Itoa(max(0, *s.Limit-s.Used)))
	}
	share("nodes", q.Nodes)
	share("cores", q.Cores)
	share("GPUs", q.GPUs)
	for _, l := range q.Limits {
		left := ""
		if l.LeftSeconds > 0 {
			left = span(l.LeftSeconds) + " at this rate"
		}
		t.row(l.What, coins(l.Used)+" ("+strconv.Itoa(l.Percent)+" %)", l.Limit, left)
	}
	t.print(a.out)
}
