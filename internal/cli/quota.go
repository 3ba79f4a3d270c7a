package cli

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) quota() *cobra.Command {
	c := &cobra.Command{
		Use:   "quota [PROJECT]",
		Short: "Show a project's quota and budget, and what it uses of them",
		Long: `Show a project's quota of nodes, cores and GPUs with what its clusters use of it now, and its budget and
node-hours of this month. Without PROJECT, show all your projects; operators see all of the site. Heads count as nodes, and so
do nodes that a queue must always have, even while they are missing.`,
		Example: `  muster quota
  muster quota aero -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirst(a.projectNames),
	}
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return show(ctx, a, apiv1.GetQuota, apiv1.GetQuotaInput{Project: args[0]}, *output, a.printQuota)
		}
		projects, err := apiv1.All(ctx, a, apiv1.ListProjects, apiv1.Page{})
		if err != nil {
			return err
		}
		whole, quotas := apiv1.List[json.RawMessage]{Items: []json.RawMessage{}}, []apiv1.Quota{}
		for _, p := range projects {
			quota, raw, err := apiv1.GetQuota.Call(ctx, a, apiv1.GetQuotaInput{Project: p.Name})
			if err != nil {
				return err
			}
			whole.Items, quotas = append(whole.Items, raw), append(quotas, quota)
		}
		return output.print(a.out, must(json.Marshal(whole)), func() { a.printQuotas(quotas) })
	})
}

func (a *app) printQuotas(quotas []apiv1.Quota) {
	if len(quotas) == 0 {
		a.say("you are in no project: an operator, or the owner of one, can add you")
	}
	for i, quota := range quotas {
		if i > 0 {
			a.out.gap()
		}
		a.printQuota(quota)
	}
}

func (a *app) printQuota(q apiv1.Quota) {
	t := newTable("PROJECT "+q.Project, "USED", "LIMIT", "LEFT")
	share := func(what string, s apiv1.Share) {
		if s.Limit == nil {
			t.row(what, strconv.Itoa(s.Used), "none", "")
			return
		}
		t.row(what, strconv.Itoa(s.Used), strconv.Itoa(*s.Limit), strconv.Itoa(max(0, *s.Limit-s.Used)))
	}
	share("clusters", q.Clusters)
	share("nodes", q.Nodes)
	share("cores", q.Cores)
	share("GPUs", q.GPUs)
	for _, l := range q.Limits {
		t.row(l.What, coins(l.Used)+" ("+strconv.Itoa(l.Percent)+" %)", l.Limit,
			textIf(l.LeftSeconds > 0, span(l.LeftSeconds)+" at this rate"))
	}
	t.print(a.out)
}
