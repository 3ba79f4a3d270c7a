package report

import (
	"fmt"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/kit/lists"
	"muster/internal/kit/printable"
)

func method() []string {
	return []string{
		"A suite runs in rounds: each of its steps once, in an order drawn by lot, as one job that has its nodes for itself. A round's " +
			"value of a quantity is the median of what was measured in it; the figures are medians of the rounds' values.",
		"Intervals hold the true value with 95 % confidence. Those of medians are by order statistics; those of ratios by the " +
			"exact signed-rank test where sides were measured in turns, else by that of Mann and Whitney, around the Hodges–Lehmann " +
			"estimate. Fewer than six values have none.",
		"Sides differ where the test sees it at 5 %, also after correction for the number of quantities (Benjamini and Hochberg), " +
			"and the interval is without 1; they are equal where the whole interval lies within the margin; else it is not decided.",
		"Steps that failed, or failed their check, are counted and named and are in no figure. A round counts unless its job was lost " +
			"or failed, or it was disturbed from outside: by time that the hypervisor gave to others, throttling, or errors of links. " +
			"Nothing is left out because of its value.",
	}
}

// Markdown is the same without figures.
func (r Report) Markdown() ([]byte, error) {
	v, err := r.view()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	cautions := func(all []string) {
		for _, caution := range all {
			fmt.Fprintf(&b, "\n> %s.\n", cell(caution))
		}
	}
	fmt.Fprintf(&b, "# %s\n\nMade on %s.\n", cell(v.Title), v.Made)
	for _, p := range v.Papers {
		fmt.Fprintf(&b, "\n## %s\n\n%s. %s\n\n%s\n\nBeside it: %s.\n", cell(p.Title), cell(p.By), cell(p.About), p.Lead,
			cell(strings.Join(p.Runs, ", ")))
		table(&b, "Of,Claim,As a ratio,Here,95 % interval,Verdict,Why", p.Claims, func(c claim) []string {
			return []string{c.Figure, c.Says, c.Wanted, c.Ratio, c.Interval, c.Verdict, c.Why}
		})
		for _, o := range p.Panels {
			fmt.Fprintf(&b, "\n### %s: %s, %s\n\n%s %s\n", cell(o.Figure), cell(o.Shows), cell(o.Unit), cell(o.Says), cell(o.Why))
			if len(o.Rows) > 0 {
				table(&b, "Of,"+strings.Join(o.Parts, ","), o.Rows, func(row placed) []string {
					return append([]string{row.Name()}, row.Cells...)
				})
			}
		}
	}
	for _, c := range v.Comparisons {
		fmt.Fprintf(&b, "\n## A: %s, B: %s\n\n%s %s\n", cell(c.A), cell(c.B), cell(c.Lead), cell(c.Note))
		cautions(c.Cautions)
		table(&b, "Recipe,Quantity,A,B,Unit,B/A,95 % interval,N,Verdict,Better,Why", c.Rows, func(q compared) []string {
			return []string{q.Recipe, q.Name, q.A, q.B, q.Unit, q.Ratio, q.Interval, q.N, q.Verdict, q.Better, q.Why}
		})
	}
	for _, o := range v.Runs {
		fmt.Fprintf(&b, "\n## Run %s\n\n%s\n", cell(o.ID), o.Lead)
		cautions(o.Cautions)
		b.WriteString("\n")
		for _, f := range o.Facts {
			fmt.Fprintf(&b, "- %s: %s\n", f[0], cell(f[1]))
		}
		table(&b, "Recipe,Quantity,Median,95 % interval,Least,Most,Unit,Rounds,Slowest node", o.Rows, func(q measured) []string {
			return []string{q.Recipe, q.Name, q.Median, q.Interval, q.Min, q.Max, q.Unit, q.N, q.Slowest}
		})
		if len(o.Problems) > 0 {
			table(&b, "Round,Recipe,State,Why", o.Problems, func(s apiv1.BenchmarkStep) []string {
				return []string{fmt.Sprint(s.Round), s.Recipe, s.State, s.Why}
			})
		}
		if len(o.Broken) > 0 {
			table(&b, "Round that does not count,Job,Why", o.Broken, func(h apiv1.BenchmarkRound) []string {
				return []string{fmt.Sprint(h.Round), string(h.State), strings.Trim(h.Why+"; "+h.Disturbed, "; ")}
			})
		}
	}
	if len(v.Facts) > 0 {
		b.WriteString("\n## Environment\n")
		var rows [][]string
		for _, f := range v.Facts {
			for _, said := range f.Values {
				rows = append(rows, []string{f.Key, said.Value, said.Whose(f)})
			}
		}
		table(&b, "What,Value,Nodes", rows, func(row []string) []string { return row })
	}
	b.WriteString("\n## Method\n")
	for _, text := range v.Method {
		fmt.Fprintf(&b, "\n%s\n", text)
	}
	table(&b, "Rule of Hoefler and Belli,Here", v.Rules, func(rule [2]string) []string { return rule[:] })
	return []byte(b.String()), nil
}

// table writes a table with a row for each of all; head is the names of its columns, with commas between.
func table[T any](b *strings.Builder, head string, all []T, row func(T) []string) {
	names := strings.Split(head, ",")
	fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(names, " | "), strings.Repeat(" --- |", len(names)))
	for _, one := range all {
		fmt.Fprintf(b, "| %s |\n", strings.Join(lists.Map(row(one), cell), " | "))
	}
}

var markdown = strings.NewReplacer("|", `\|`, "<", "&lt;", "[", `\[`)

// cell is a text that begins nothing of Markdown.
func cell(text string) string { return markdown.Replace(printable.Line(text)) }
