package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/place/acceptance"
)

func (a *app) machinesHealth() *cobra.Command {
	c := &cobra.Command{
		Use:   "health [NAME]",
		Short: "Show what machines measured in acceptance tests",
		Long: `Every node measures itself before it is handed over, and where it shares its CPUs soon after: memory bandwidth, compute, and
the network to the head and to a neighbour. Without NAME this shows the newest test of every machine; with NAME all that are
kept of one, the newest first.
Beside each value is its share of the median of similar machines: the newest passed tests of the same class on the same model.

A whole machine that is far below similar ones is measured twice more, and then quarantined.`,
		Example: `  muster machines health
  muster machines health r1n7
  muster machines health r1n7 -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirst(a.machineNames),
	}
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		table := func(passes []apiv1.TestResult) { a.printTestResults(passes, len(args) == 1) }
		if len(args) == 1 {
			return showAll(ctx, a, apiv1.ListMachineTestResults, apiv1.MachineRef{Machine: args[0]}, *output, table)
		}
		return showAll(ctx, a, apiv1.ListTestResults, apiv1.Page{}, *output, table)
	})
}

// printTestResults shows tests of one machine, which need no name, or of several.
func (a *app) printTestResults(passes []apiv1.TestResult, one bool) {
	if len(passes) == 0 {
		a.say("no node has been tested there yet; every node is tested before it is handed over or soon after, unless the " +
			"site file says otherwise")
		return
	}
	head := []string{"MACHINE", "CLASS", "AGO", "NODE", "VERDICT"}
	for _, kind := range acceptance.Kinds() {
		head = append(head, strings.ToUpper(column(string(kind.Quantity)))+" "+kind.Unit)
	}
	t := newTable(append(head, "WHY")...)
	for _, p := range passes {
		if one {
			p.Machine = ""
		}
		cells := []any{p.Machine, p.Class, age(p.At), p.Cluster + "/" + p.Node, a.verdict(p)}
		for _, kind := range acceptance.Kinds() {
			cells = append(cells, measured(p, kind))
		}
		t.row(append(cells, p.Text)...)
	}
	t.print(a.out)
}

// column makes a heading of a quantity: "neighbour-round-trip" → "neighbour".
func column(quantity string) string {
	name, _, _ := strings.Cut(quantity, "-")
	return name
}

func (a *app) verdict(p apiv1.TestResult) string {
	return string(p.Verdict) + textIf(p.Number > 1, fmt.Sprintf(" (test %d)", p.Number))
}

// measured is a value with its share of the median: "11.2 (99%)".
func measured(p apiv1.TestResult, kind acceptance.Kind) string {
	for _, r := range p.Results {
		switch {
		case string(r.Quantity) != string(kind.Quantity):
		case r.Value == 0:
			return "-"
		case r.Median == 0:
			return acceptance.Round(r.Value)
		default:
			return fmt.Sprintf("%s (%.0f%%)", acceptance.Round(r.Value), 100*r.Value/r.Median)
		}
	}
	return ""
}
