package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/internal/bench/papers"
	"muster/internal/kit/printable"
	"muster/internal/kit/words"
)

// paper is a paper beside runs, as it is shown.
type paper struct {
	Title, By, About, Lead string
	Runs                   []string
	Panels                 []panel
	Claims                 []claim
	Without                []papers.Without
}

type panel struct {
	Figure, Shows, Unit, Says, Why string
	Low, High                      string // of the axis that all rows share
	Parts                          []string
	Rows                           []placed
	Graph                          template.HTML
	Key                            []key
}

// key is the name of a line of a graph.
type key struct{ Class, Name string }

// placed is a row of a paper's table, or of one's own.
type placed struct {
	What  string
	Own   bool
	Limit bool
	Cells []string
	Plot  template.HTML
}

// Name says whose it is.
func (p placed) Name() string {
	if p.Own && !p.Limit {
		return "here: " + p.What
	}
	return p.What
}

type claim struct{ Figure, Says, Wanted, Ratio, Interval, Verdict, Why string }

func published(p papers.Page) paper {
	o := paper{Title: p.Title, By: p.By, About: p.About, Runs: p.Runs, Without: p.Without}
	verdicts := map[papers.Verdict]int{}
	for _, c := range p.Judged {
		verdicts[c.Verdict]++
		one := claim{Figure: c.Figure, Says: c.Says, Verdict: string(c.Verdict), Why: c.Why}
		switch {
		case c.Most == 0:
			one.Wanted = "at least " + words.Figure(c.Least)
		case c.Least == 0:
			one.Wanted = "at most " + words.Figure(c.Most)
		default:
			one.Wanted = words.Figure(c.Least) + " to " + words.Figure(c.Most)
		}
		if c.Ratio > 0 {
			one.Ratio = words.Figure(c.Ratio)
		}
		if c.Low < c.High {
			one.Interval = words.Figure(c.Low) + " – " + words.Figure(c.High)
		}
		o.Claims = append(o.Claims, one)
	}
	o.Lead = fmt.Sprintf("%s: %d seen here too, %d not seen, %d not decided. Measured values stand beside %d of the %s in its figures "+
		"and tables.", words.Count(len(p.Judged), "claim"), verdicts[papers.Seen], verdicts[papers.NotSeen],
		verdicts[papers.Undecided], p.Beside, words.Count(p.Published, "number"))
	for _, s := range p.Shown {
		o.Panels = append(o.Panels, shown(s))
	}
	return o
}

// shown is a panel: a table whose rows share an axis, or a graph.
func shown(s papers.Shown) panel {
	o := panel{Figure: s.Figure, Shows: s.Shows, Unit: s.Unit, Says: s.Says, Why: s.Why}
	if s.X != "" {
		o.Graph = graph(fmt.Sprintf("%s, by %s", s.Shows, s.X), s.X, s.Unit, s.Lines)
		for i, l := range s.Lines[:min(len(s.Lines), mostLines)] {
			o.Key = append(o.Key, key{colour(i), keyed(l)})
		}
		return o
	}
	for _, part := range s.Each {
		o.Parts = append(o.Parts, cmp.Or(part.Name, "value"))
	}
	var values []float64
	for _, own := range s.Own {
		for _, c := range own.Cells {
			if c.Known {
				values = append(values, c.Low, c.High)
			}
		}
	}
	rows := make([]papers.Own, len(s.Rows))
	for i, row := range s.Rows {
		rows[i] = papers.Own{What: row.What, Cells: make([]papers.Cell, len(s.Each))}
		for k, v := range row.Is {
			rows[i].Cells[k] = papers.Cell{Known: true, Value: (v.Low + v.High) / 2, Low: v.Low, High: v.High}
			values = append(values, v.Low, v.High)
		}
	}
	if len(values) == 0 {
		return o
	}
	a := shared(values, 0, 100)
	o.Low, o.High = words.Figure(a.low), words.Figure(a.high)
	for i, row := range slices.Concat(rows, s.Own) {
		one := placed{What: row.What, Own: i >= len(rows), Limit: row.Limit}
		var said []string
		for k, c := range row.Cells {
			text := ""
			if c.Known {
				switch {
				case one.Own:
					text = words.Figure(c.Value)
				case c.Low < c.High:
					text = exact(c.Low) + " – " + exact(c.High)
				default:
					text = exact(c.Value)
				}
				said = append(said, strings.TrimSpace(o.Parts[k]+" "+text))
			}
			one.Cells = append(one.Cells, text)
		}
		what := fmt.Sprintf("%s: %s %s", row.What, strings.Join(said, ", "), s.Unit)
		one.Plot = places(what, a, row.Cells, one.Own && !one.Limit)
		o.Rows = append(o.Rows, one)
	}
	return o
}

// shared is an axis for values: logarithmic where they are far apart, and none is 0.
func shared(values []float64, from, to float64) axis {
	low, high := slices.Min(values), slices.Max(values)
	if low > 0 && high/low > 10 {
		return axis{true, low / 1.1, high * 1.1, from, to}
	}
	a := around(values, from, to)
	if low >= 0 {
		a.low = min(0, low)
	}
	return a
}

// places are values of a row on the axis that all rows share: what is published as hollow marks, what was measured as full ones.
func places(what string, a axis, cells []papers.Cell, own bool) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label="%s">`,
		escaped(what))
	for i, c := range cells {
		if !c.Known {
			continue
		}
		if c.Low < c.High {
			fmt.Fprintf(&b, `<line class="band" x1="%.2f" x2="%.2f" y1="10" y2="10"/>`, a.at(c.Low), a.at(c.High))
		}
		class := "theirs"
		if own {
			class = "ours"
		}
		fmt.Fprintf(&b, `<line class="%s %s" x1="%.2f" x2="%.2f" y1="3" y2="17"/>`, colour(i), class, a.at(c.Value), a.at(c.Value))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all that is not ours is escaped
}

// exact is a number as it is published.
func exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// escaped is text that others have written, in a figure.
func escaped(text string) string { return html.EscapeString(printable.Line(text)) }

// colour is the class that gives a line its colour.
func colour(i int) string { return fmt.Sprintf("c%d", i%6) }

// mostLines is how many lines a graph has at most; more are seen in the table of the run.
const mostLines = 12

func keyed(l papers.Line) string {
	if l.Published {
		return "published: " + l.Name
	}
	return l.Name
}

// graph has lines over x, published points among them. Axes are logarithmic where values are far apart.
func graph(what, x, unit string, lines []papers.Line) template.HTML {
	var xs, ys []float64
	lines = lines[:min(len(lines), mostLines)]
	for _, l := range lines {
		for _, p := range l.Points {
			xs, ys = append(xs, p.X), append(ys, p.Low, p.High)
		}
	}
	if len(xs) == 0 {
		return ""
	}
	const width, height, left, bottom = 520, 260, 60, 42
	across, up := shared(xs, left, width-16), shared(ys, height-bottom, 14)
	if !across.log { // x begins where it was measured
		across = around(xs, left, width-16)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="curve" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`, width, height, width,
		height, html.EscapeString(what))
	for _, v := range up.marks() {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left, width-16, up.at(v), up.at(v), left-6, up.at(v)+4, words.Figure(v))
	}
	at := slices.Compact(slices.Sorted(slices.Values(xs)))
	for i, v := range at {
		if skip := len(at)/8 + 1; i%skip == 0 {
			text := words.Figure(v)
			if x == "bytes" {
				text = size(v)
			}
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, across.at(v), height-24, text)
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`, (left+width)/2, height-6, html.EscapeString(x))
	for i, l := range lines {
		class := colour(i)
		if l.Published || l.Limit {
			class += " theirs"
		}
		trace(&b, class, across, up, l.Points, func(p papers.Point) string {
			return fmt.Sprintf("%s, %s %s: %s %s", keyed(l), x, words.Figure(p.X), words.Figure(p.Value), unit)
		})
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all that is not ours is escaped
}

// marks are values to mark on an axis of either kind: on a linear one, 1, 2 or 5 times a power of ten apart.
func (a axis) marks() (all []float64) {
	if a.log {
		return a.ticks()
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/4)))
	for _, times := range []float64{5, 2} {
		if (a.high-a.low)/(step*times) >= 3 {
			step *= times
			break
		}
	}
	const little = 1e-9
	for k := math.Ceil(a.low/step - little); k*step <= a.high+little*step; k++ {
		all = append(all, k*step+0) // which is no negative zero
	}
	return all
}
