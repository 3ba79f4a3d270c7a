package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/printable"
	"muster/internal/price"
)

// window is the time and the detail that a cost is asked for.
type window struct{ month, from, to, by, project string }

func (a *app) cost() *cobra.Command {
	c := &cobra.Command{
		Use:   "cost [NAME]",
		Short: "Show what a cluster or a project has used, and what it costs",
		Long: `Show what a cluster has used since its creation, node by node, to the second: how long each node was prepared, was ready, drained;
how much of that is charged, and what it costs. Name a deleted cluster by its ID. Without NAME, show this month's statement
for all clusters of all projects, deleted ones included, with one line per queue.

Each line is charged time at one price, rounded once, to a millionth; the total is the sum of the lines. -o csv writes the lines
for a spreadsheet, with times in seconds and unrounded amounts. Times are in UTC.`,
		Example: `  muster cost cfd
  muster cost
  muster cost --project aero --month 2026-11 -o csv > november.csv
  muster cost cfd --from 2026-11-02 --to 2026-11-09 --by row -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	var w window
	c.Flags().StringVar(&w.project, "project", "", "only what this `PROJECT` has used")
	c.Flags().StringVar(&w.month, "month", "", "only what was used in this month, a `YYYY-MM`")
	c.Flags().StringVar(&w.from, "from", "", "only what was used from this `TIME` on: a day, or RFC 3339")
	c.Flags().StringVar(&w.to, "to", "", "only what was used before this `TIME`")
	c.Flags().StringVar(&w.by, "by", "", "one line for each `WHAT`: queue, node, or row (a stretch in one state)")
	_ = c.RegisterFlagCompletionFunc("by",
		cobra.FixedCompletions([]string{"queue", "node", "row"}, cobra.ShellCompDirectiveNoFileComp))
	output := csvFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		span, err := w.span(len(args) > 0)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			cost, raw, err := apiv1.GetClusterCost.Call(ctx, a,
				apiv1.GetClusterCostInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]}, Window: span})
			if err != nil {
				return err
			}
			return output.print(a.out, raw, cost.Lines, func() { a.printCost(cost) })
		}
		statement, raw, err := apiv1.GetUsage.Call(ctx, a, apiv1.GetUsageInput{Project: w.project, Window: span})
		if err != nil {
			return err
		}
		return output.print(a.out, raw, statement.Lines, func() { a.printStatement(statement) })
	})
}

// span is the window as the API asks for it.
func (w window) span(one bool) (span apiv1.Window, err error) {
	if w.month != "" && (w.from != "" || w.to != "") {
		return span, usage("give either --month, or --from and --to")
	}
	if one && w.project != "" {
		return span, usage("give either --project or a cluster's name")
	}
	span.By = apiv1.By(w.by)
	if w.by == "" {
		span.By = map[bool]apiv1.By{true: apiv1.ByNode, false: apiv1.ByQueue}[one]
	}
	if w.month != "" {
		first, err := time.Parse("2006-01", w.month)
		if err != nil {
			return span, usage("--month %q is not a month; write for example 2026-11", w.month)
		}
		span.From, span.To = first, first.AddDate(0, 1, 0)
	}
	for _, end := range []struct {
		name, text string
		at         *time.Time
	}{{"from", w.from, &span.From}, {"to", w.to, &span.To}} {
		if end.text == "" {
			continue
		}
		if *end.at, err = readTime(end.text); err != nil {
			return span, usage("--%s %q is not a time; write for example 2026-11-02, or 2026-11-02T08:00:00Z", end.name, end.text)
		}
	}
	return span, nil
}

// readTime reads a day, in UTC, or an RFC 3339 time.
func readTime(text string) (time.Time, error) {
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at, nil
	}
	return time.Parse(time.RFC3339, text)
}

func (a *app) printCost(c apiv1.Cost) {
	a.printLines(c.Lines, false)
	t := newTable()
	t.row("cluster", c.Cluster+" ("+c.ClusterID+"), project "+c.Project)
	t.row("from", stamp(c.From)+" to "+stamp(c.To))
	t.row("total", orNothing(coins(c.Total)))
	if c.PerHour != "" {
		t.row("now", coins(c.PerHour)+" per hour")
	}
	for _, l := range c.Limits {
		t.row(l.What, limitWords(l))
	}
	t.printBelow(a.out)
}

func (a *app) printStatement(s apiv1.Statement) {
	if len(s.Lines) == 0 {
		a.say("nothing was used from %s to %s", stamp(s.From), stamp(s.To))
		return
	}
	a.printLines(s.Lines, true)
	t := newTable()
	t.row("site", s.Site)
	t.row("project", cmp.Or(s.Project, "all"))
	t.row("from", stamp(s.From)+" to "+stamp(s.To))
	t.row("node-hours", fmt.Sprintf("%.2f", s.NodeHours))
	t.row("total", orNothing(coins(s.Total)))
	t.printBelow(a.out)
}

// printLines leaves out the cluster where there is one only.
func (a *app) printLines(lines []apiv1.UsageLine, several bool) {
	t := newTable("CLUSTER", "NODE", "QUEUE", "CLASS", "MACHINE", "NODES", "FROM", "PREPARING", "READY", "DRAINING", "FAILED",
		"RELEASING", "CHARGED", "RATE", "COST")
	for _, l := range lines {
		node, queue, charged, rate := l.Node, l.Queue, span(l.ChargedSeconds), coins(l.Rate)+"/h"
		if l.Kind == "home" {
			node, charged, rate = "/home", strconv.FormatFloat(math.Round(1e6*l.GiBMonths)/1e6, 'f', -1, 64)+" GiB-months",
				coins(l.Rate)+"/GiB-month"
		} else if l.Queue == "" {
			queue = "(head)"
		}
		t.row(textIf(several, l.Cluster), node, queue, l.Class, l.Machine,
			textIf(l.Node == "" && l.Kind == "node", strconv.Itoa(l.Nodes)), stamp(l.From), span(l.Seconds["preparing"]),
			span(l.Seconds["ready"]), span(l.Seconds["draining"]), span(l.Seconds["failed"]), span(l.Seconds["releasing"]),
			charged, textIf(l.Rate != "", rate), coins(l.Cost))
	}
	t.print(a.out)
}

// costWords is "12.5 EUR so far, 3.2 EUR per hour now".
func costWords(c apiv1.Cluster) string {
	return coins(c.Cost) + " so far" + textIf(c.PerHour != "", ", "+coins(c.PerHour)+" per hour now")
}

// limitWords is "412.50 EUR of 500.00 EUR (82 %), then pauses; lasts for 2h5m".
func limitWords(l apiv1.Limit) string {
	return fmt.Sprintf("%s of %s (%d %%)", coins(l.Used), l.Limit, l.Percent) + textIf(l.Pauses, ", then pauses") +
		textIf(l.LeftSeconds > 0, "; lasts for "+short(time.Duration(l.LeftSeconds)*time.Second))
}

// stamp is a time to the second, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// span is a time of a table: "1h2m3s", "" for none.
func span(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// coins rounds amounts of money to the four decimals that a table has room for; a second of a node shows in them.
func coins(text string) string {
	parts := strings.Split(text, " + ")
	for i, part := range parts {
		p, err := price.Parse(part)
		if err != nil {
			continue // no money
		}
		p.Micros = (p.Micros + 50) / 100 * 100
		parts[i] = p.String()
	}
	return strings.Join(parts, " + ")
}

func orNothing(money string) string { return cmp.Or(money, "nothing: the site has no prices") }

// csvFormat is a format that may also be csv.
type csvFormat struct {
	format
	csv bool
}

// Set is for the flag.
func (f *csvFormat) Set(text string) error {
	if f.csv = text == "csv"; f.csv {
		return nil
	}
	if f.format.Set(text) != nil {
		return fmt.Errorf("must be one of %s, csv", strings.Join(formats(), ", "))
	}
	return nil
}

func csvFlag(c *cobra.Command) *csvFormat {
	f := &csvFormat{format: asTable}
	c.Flags().VarP(f, "output", "o", "how to print: table, csv, or the API's objects as json or yaml")
	_ = c.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(append(formats(), "csv"), cobra.ShellCompDirectiveNoFileComp))
	return f
}

func (f *csvFormat) print(s *screen, raw []byte, lines []apiv1.UsageLine, rows func()) error {
	if f.csv {
		return writeCSV(s.raw(), lines)
	}
	return f.format.print(s, raw, rows)
}

// writeCSV writes lines with times in seconds, and money with its currency in a column of its own.
func writeCSV(w io.Writer, lines []apiv1.UsageLine) error {
	states := []string{"preparing", "ready", "draining", "failed", "releasing", "stored"}
	head := []string{"project", "cluster", "cluster_id", "kind", "node", "queue", "class", "machine", "nodes", "from", "to"}
	for _, s := range states {
		head = append(head, s+"_seconds")
	}
	out := csv.NewWriter(w)
	_ = out.Write(append(head, "charged_seconds", "gib_months", "rate", "cost", "currency")) // Error tells at the end
	for _, l := range lines {
		const instant = "2006-01-02T15:04:05.000Z"
		row := []string{l.Project, l.Cluster, l.ClusterID, string(l.Kind), l.Node, l.Queue, l.Class, l.Machine,
			strconv.Itoa(l.Nodes), l.From.UTC().Format(instant), l.To.UTC().Format(instant)}
		for _, s := range states {
			row = append(row, strconv.FormatFloat(l.Seconds[s], 'f', 3, 64))
		}
		rate, currency, _ := strings.Cut(l.Rate, " ")
		cost, _, _ := strings.Cut(l.Cost, " ")
		row = append(row, strconv.FormatFloat(l.ChargedSeconds, 'f', 3, 64), strconv.FormatFloat(l.GiBMonths, 'f', 9, 64), rate,
			cost, currency)
		for i := range row {
			row[i] = printable.Line(row[i])
		}
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}
