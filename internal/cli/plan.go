package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/words"
	"muster/internal/spec"
)

func (a *app) plan() *cobra.Command {
	c := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what applying a file would do",
		Long: `Compare a cluster file with the cluster of its name, if there is one, and print what ` + "`muster apply`" + ` would do: each
changed value with its effect on running jobs, the new nodes with their machines and their place in the network, the nodes that
would be removed or rebooted with time and reason, and the price. Nothing is changed or reserved.`,
		Example: `  muster plan -f cluster.yaml
  muster plan -f cluster.yaml -o json`,
		Args: cobra.NoArgs,
	}
	path := fileFlag(c)
	refresh := refreshFlag(c)
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		file, err := a.readFile(*path)
		if err != nil {
			return err
		}
		in := file.apply(apiv1.Request{DryRun: true}, bool(*refresh))
		return show(ctx, a, apiv1.ApplyCluster, in, *output, func(answer apiv1.Answer) { a.printPlan(answer.Plan) })
	})
}

// printPlan prints what a change would do.
func (a *app) printPlan(p apiv1.Plan) {
	a.out.line("cluster %s: %s", p.Spec.Name, planWords(p))
	const none = "(none)"
	changes := newTable("CHANGE", "OLD", "", "NEW", "EFFECT", "WHY")
	for _, c := range p.Changes {
		changes.row(c.Path, cmp.Or(c.Old, none), "→", cmp.Or(c.New, none), string(c.Effect), c.Why)
	}
	changes.printBelow(a.out)
	nodes := newTable("COMES", "QUEUE", "CLASS", "MACHINE")
	for _, n := range p.Add {
		nodes.row(n.Node, n.Queue, n.Class, n.Machine)
	}
	nodes.printBelow(a.out)
	a.printSteps(p.Steps)
	facts := newTable()
	facts.fact("price", textIf(p.Price != "", p.Price+" per hour"))
	facts.fact("total", textIf(p.Total != "", p.Total+" for its lease if nothing changes"))
	facts.fact("starts at", textOf(p.FitsAt, spec.When))
	if r := p.ReadyIn; r != nil {
		facts.row("ready", fmt.Sprintf("in %.1f to %.1f s, as %s of its classes were", r.Low, r.High,
			words.Count(r.Nodes, "node")))
	}
	for _, text := range afterWords(p.After) {
		facts.row("after", text)
	}
	for _, l := range p.Layouts {
		facts.row("network", l.Text)
	}
	for _, m := range p.Messages {
		facts.row("note", m)
	}
	facts.printBelow(a.out)
}

// afterWords are what a project has of its limits once a plan is carried out.
func afterWords(q *apiv1.Quota) (all []string) {
	if q == nil {
		return nil
	}
	var held []string
	for _, s := range []struct {
		apiv1.Share
		noun string
	}{{q.Nodes, "node"}, {q.Cores, "core"}, {q.GPUs, "GPU"}} {
		if s.Limit != nil {
			held = append(held, fmt.Sprintf("%d of %s", s.Used, words.Count(*s.Limit, s.noun)))
		}
	}
	if len(held) > 0 {
		all = append(all, "project "+q.Project+" has "+strings.Join(held, ", "))
	}
	for _, l := range q.Limits {
		all = append(all, l.What+": "+limitWords(l))
	}
	return all
}

// planWords is a plan in one line.
func planWords(p apiv1.Plan) string {
	var parts []string
	for _, some := range []struct {
		n               int
		noun, one, many string
	}{
		{len(p.Changes), "change", "", ""}, {len(p.Add), "node", " comes", " come"}, {len(p.Release), "node", " goes", " go"},
		{rebooting(p.Steps), "node", " reboots", " reboot"},
	} {
		switch {
		case some.n == 1:
			parts = append(parts, words.Count(some.n, some.noun)+some.one)
		case some.n > 1:
			parts = append(parts, words.Count(some.n, some.noun)+some.many)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing to change")
}
