package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

func (a *app) status() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the site: controller, machines, clusters, alarms",
		Long: `Show whether the controller is ready and what it checked, how many clusters, nodes and machines are in each phase,
and the alarms that need a person. The exit code is 1 if the controller is not ready, for use in scripts.

With --day, show how many there were of everything at the end of each hour of the last day; -o json has every five minutes.`,
		Example: `  muster status
  muster status -o json
  muster status --day`,
		Args: cobra.NoArgs,
	}
	day := c.Flags().Bool("day", false, "show how many there were of everything in the last day instead")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		if *day {
			in := apiv1.ListMomentsInput{Step: 5}
			if *output == asTable {
				in.Step = 60
			}
			return show(ctx, a, apiv1.ListMoments, in, *output, a.printDay)
		}
		s, raw, err := apiv1.GetStatus.Call(ctx, a, apiv1.Nothing{})
		if err != nil {
			return err
		}
		if err := output.print(a.out, raw, func() { a.printStatus(s) }); err != nil {
			return err
		}
		if !s.Ready {
			return fmt.Errorf("the controller %s is not ready", s.Controller)
		}
		return nil
	})
}

func (a *app) printDay(day apiv1.List[apiv1.Moment]) {
	if len(day.Items) == 0 {
		a.say("nothing has been counted yet; the controller does so each minute")
		return
	}
	t := newTable("TIME", "CLUSTERS", "NODES", "MACHINES", "JOBS RUNNING", "JOBS PENDING", "LATE")
	for _, m := range day.Items {
		t.row(m.At.Local().Format("Mon 15:04"), counts(m.Clusters, cluster.Kind), counts(m.Nodes, node.Kind),
			counts(m.Machines, machine.Kind), m.Running, m.Pending, span(m.Lag))
	}
	t.print(a.out)
}

func (a *app) printStatus(s apiv1.Status) {
	t := newTable()
	t.row("site", s.Site)
	t.row("controller", fmt.Sprintf("%s, version %s, for %s", s.Controller, s.Version, age(s.Since)))
	for _, check := range s.Checks {
		text := check.Text
		if !check.OK {
			text = "FAILED: " + text
		}
		t.row(check.Name, text)
	}
	t.row("clusters", counts(s.Clusters, cluster.Kind))
	t.row("nodes", counts(s.Nodes, node.Kind))
	t.row("machines", counts(s.Machines, machine.Kind))
	t.fact("nodes' root", s.LocalRoot)
	if s.Due > 0 {
		t.row("work", fmt.Sprintf("%d wait for their next step, the first of them for %.1f s", s.Due, s.Lag))
	}
	if len(s.Alarms) == 0 {
		t.row("alarms", "none")
	}
	for i, alarm := range s.Alarms {
		t.row(textIf(i == 0, "alarms"), alarm.Text+known(alarm))
	}
	t.print(a.out)
}

// counts writes how many are in which phase, in the order of life: "5: 4 ready, 1 draining".
func counts(n map[string]int, kind core.Kind) string {
	total := 0
	for _, count := range n {
		total += count
	}
	var parts []string
	for _, phase := range kinds.Phases(kind) {
		if n[string(phase)] > 0 {
			parts = append(parts, strconv.Itoa(n[string(phase)])+" "+string(phase))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strconv.Itoa(total) + ": " + strings.Join(parts, ", ")
}
