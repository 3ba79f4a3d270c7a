// Package report writes a page about runs of benchmarks and comparisons of them: one file that needs nothing else.
//
// What enters: runs with all their samples, and comparisons, as the API shows them. What leaves: HTML, or Markdown. It is pure.
package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/bench/papers"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
)

// Report is what a page is about.
type Report struct {
	Runs        []export.Run // with samples
	Comparisons []apiv1.BenchmarkComparison
	Papers      []papers.Page // they come first
	Made        time.Time
	Version     string
}

//go:embed page.html
var page string

//go:embed style.css
var style string

// HTML is one page: no script, nothing from elsewhere, light and dark.
func (r Report) HTML() ([]byte, error) {
	t, err := template.New("page").Parse(page)
	if err != nil {
		return nil, err
	}
	v, err := r.view()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, v)
	return b.Bytes(), err
}

// view is what the page shows.
type view struct {
	Title, Made, Version string
	Style                template.CSS
	Papers               []paper
	Comparisons          []comparison
	Runs                 []run
	Facts                []export.Fact
	Method               []string
	Rules                [][2]string
}

type comparison struct {
	A, B, Lead, Note string
	Cautions         []string
	Low, High        string // of the axis of ratios
	Margin           string
	Rows             []compared
	Curves           []drawn
}

type compared struct {
	Recipe, Name, A, B, Unit, Ratio, Interval, N, Verdict, Better, Why string
	Plot                                                               template.HTML
}

type run struct {
	ID, Lead string
	Cautions []string
	Facts    [][2]string
	Rows     []measured
	Curves   []drawn
	Problems []apiv1.BenchmarkStep
	Broken   []apiv1.BenchmarkRound
	Data     template.URL
}

type measured struct {
	Recipe, Name, Median, Interval, Min, Max, Unit, N, Slowest string
	Plot                                                       template.HTML
}

type drawn struct {
	Title  string
	Figure template.HTML
}

func (r Report) view() (view, error) {
	v := view{Title: r.title(), Made: r.Made.UTC().Format("2006-01-02 15:04 UTC"), Version: r.Version, Style: template.CSS(style),
		Facts: export.Facts(r.Runs...), Method: method()}
	v.Rules = r.tally(len(v.Facts)).rules()
	for _, p := range r.Papers {
		v.Papers = append(v.Papers, published(p))
	}
	for _, c := range r.Comparisons {
		v.Comparisons = append(v.Comparisons, compare(c, r.Runs))
	}
	for _, one := range r.Runs {
		o, err := about(one)
		if err != nil {
			return v, err
		}
		v.Runs = append(v.Runs, o)
	}
	return v, nil
}

func (r Report) title() string {
	clusters, suites := map[string]bool{}, map[string]bool{}
	for _, one := range r.Runs {
		clusters[one.Cluster], suites[one.Suite] = true, true
	}
	name := func(all map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(all)), ", ") }
	return fmt.Sprintf("%s on %s", name(suites), name(clusters))
}

func between(i *apiv1.Interval) string {
	if i == nil {
		return ""
	}
	return words.Figure(i.Low) + " – " + words.Figure(i.High)
}

func bounds(i *apiv1.Interval, otherwise float64) (low, high float64) {
	if i == nil {
		return otherwise, otherwise
	}
	return i.Low, i.High
}

func about(r export.Run) (run, error) {
	data, err := export.CSV(r)
	if err != nil {
		return run{}, err
	}
	var states []string
	total := 0
	for _, state := range slices.Sorted(maps.Keys(r.Steps)) {
		total += r.Steps[state]
		if state != "ok" {
			states = append(states, fmt.Sprintf("%d %s", r.Steps[state], state))
		}
	}
	o := run{ID: r.ID, Problems: r.Problems, Cautions: r.Cautions,
		Data: template.URL("data:text/csv;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(data))}
	others := ""
	if len(states) > 0 {
		others = " (" + strings.Join(states, ", ") + ")"
	}
	o.Lead = fmt.Sprintf("%d of %s are ok%s, in %s that count.", r.Steps["ok"], words.Count(total, "step"), others,
		words.Count(r.Ended-r.Broken, "round"))
	for _, h := range r.History {
		if !h.Counts {
			o.Broken = append(o.Broken, h)
		}
	}
	o.Facts = [][2]string{{"Suite", r.Suite}, {"Cluster", r.Cluster}, {"Queue", r.Queue}, {"Project", r.Project},
		{"By", r.Account},
		{"On", fmt.Sprintf("%s of %s and %d MiB", words.Count(r.On.Nodes, "node"), words.Count(r.On.Cores, "core"),
			r.On.MemoryMiB)},
		{"Asked for", r.CreatedAt.UTC().Format("2006-01-02 15:04 UTC")},
		{"State", cmp.Or(string(r.Outcome), string(r.Phase))}}
	if r.Outcome != apiv1.BenchmarkOK {
		o.Facts = append(o.Facts, [2]string{"Why", r.Reason})
	}
	names := export.NamesOf(r.Series)
	for _, s := range r.Series {
		row := measured{Recipe: s.Recipe, Name: names.Of(s.Recipe, s.Quantity, s.Parameters, s.Labels),
			Median: words.Figure(s.Median), Interval: between(s.Interval), Min: words.Figure(s.Min), Max: words.Figure(s.Max),
			Unit: s.Unit,
			N:    strconv.Itoa(s.N)}
		if len(s.Nodes) > 1 {
			row.Slowest = s.Nodes[0].Node + " " + words.Figure(s.Nodes[0].Value)
		}
		rounds := lists.Map(s.Rounds, func(v apiv1.RoundValue) float64 { return v.Value })
		low, high := bounds(s.Interval, s.Median)
		what := fmt.Sprintf("%s: %s from %s to %s %s, median %s", row.Name, words.Count(len(rounds), "value"), row.Min, row.Max,
			s.Unit, row.Median)
		row.Plot = strip(what, rounds, low, high, s.Median)
		o.Rows = append(o.Rows, row)
	}
	o.Curves = curves([][]apiv1.BenchmarkSeries{r.Series})
	return o, nil
}

// curves draw what was measured for several sizes of messages: of one run, or of two.
func curves(sides [][]apiv1.BenchmarkSeries) (all []drawn) {
	type key struct{ recipe, quantity, unit string }
	points := map[key][][]papers.Point{}
	var order []key
	for i, side := range sides {
		for _, s := range side {
			x, err := strconv.ParseFloat(s.Labels["bytes"], 64)
			if err != nil || x <= 0 || len(s.Labels) != 1 {
				continue
			}
			k := key{s.Recipe, s.Quantity, s.Unit}
			if points[k] == nil {
				points[k] = make([][]papers.Point, len(sides))
				order = append(order, k)
			}
			low, high := bounds(s.Interval, s.Median)
			points[k][i] = append(points[k][i], papers.Point{X: x, Value: s.Median, Low: low, High: high})
		}
	}
	for _, k := range order {
		for _, side := range points[k] {
			slices.SortFunc(side, func(a, b papers.Point) int { return cmp.Compare(a.X, b.X) })
		}
		title := fmt.Sprintf("%s (%s), %s by bytes", k.quantity, k.recipe, k.unit)
		if f := curve(title+": the values are in the table", k.unit, points[k]); f != "" {
			all = append(all, drawn{title, f})
		}
	}
	return all
}

func compare(c apiv1.BenchmarkComparison, runs []export.Run) comparison {
	side := func(b apiv1.Benchmark) string { return fmt.Sprintf("%s, queue %s (run %s)", b.Cluster, b.Queue, b.ID) }
	o := comparison{A: side(c.A), B: side(c.B), Margin: words.Figure(c.Margin * 100)}
	var differ, equal, undecided, incomparable []string
	ratios := []float64{1 - c.Margin, 1 + c.Margin}
	names := export.NamesCompared(c.Quantities)
	for _, q := range c.Quantities {
		if q.N > 0 && q.Ratio > 0 {
			low, high := bounds(q.Interval, q.Ratio)
			ratios = append(ratios, low, high, q.Ratio)
		}
	}
	shared := axis{true, slices.Min(ratios) / 1.02, slices.Max(ratios) * 1.02, 0, 100}
	o.Low, o.High = words.Figure(shared.low), words.Figure(shared.high)
	for _, q := range c.Quantities {
		row := compared{Recipe: q.Recipe, Name: names.Of(q.Recipe, q.Quantity, q.Parameters, q.Labels),
			Unit: q.Unit, Interval: between(q.Interval), Verdict: q.Verdict, Better: strings.ToUpper(q.Better), Why: q.Why}
		if q.N > 0 && q.Ratio > 0 {
			row.A, row.B, row.N, row.Ratio = words.Figure(q.A), words.Figure(q.B), strconv.Itoa(q.N), words.Figure(q.Ratio)
			low, high := bounds(q.Interval, q.Ratio)
			what := fmt.Sprintf("%s: B is %s of A, %s", row.Name, row.Ratio, cmp.Or(row.Interval, "no interval"))
			row.Plot = ratio(what, shared, c.Margin, q.Ratio, low, high)
		}
		switch q.Verdict {
		case "differs":
			differ = append(differ, fmt.Sprintf("%s (B is %s of A, %s; %s is better)", row.Name, row.Ratio, row.Interval,
				row.Better))
		case "equal":
			equal = append(equal, row.Name)
		case "not decided":
			undecided = append(undecided, row.Name)
		default:
			incomparable = append(incomparable, row.Name)
		}
		o.Rows = append(o.Rows, row)
	}
	var parts []string
	for _, part := range []struct {
		text  string
		names []string
	}{{"differ", differ}, {"are equal within " + o.Margin + " %", equal}, {"are not decided", undecided},
		{"cannot be compared", incomparable}} {
		if n := len(part.names); n > 0 {
			parts = append(parts, fmt.Sprintf("these %s (%d): %s", part.text, n, words.Few(part.names)))
		}
	}
	o.Lead = fmt.Sprintf("Of %d quantities %s.", len(c.Quantities), strings.Join(parts, "; "))
	if f := c.Failures; f.A+f.B > 0 {
		o.Note = fmt.Sprintf("%d of %d steps on A and %d of %d on B are not ok (Fisher's exact test: p = %s). ", f.A, f.OfA, f.B,
			f.OfB, words.Figure(f.P))
	}
	for i, b := range []apiv1.Benchmark{c.A, c.B} {
		for _, caution := range b.Cautions {
			o.Cautions = append(o.Cautions, "AB"[i:i+1]+": "+caution)
		}
	}
	if !c.Paired {
		o.Note += "The sides were not measured in turns: what has changed between them counts too."
	}
	var sides [][]apiv1.BenchmarkSeries
	for _, b := range []apiv1.Benchmark{c.A, c.B} {
		i := slices.IndexFunc(runs, func(r export.Run) bool { return r.ID == b.ID })
		if i < 0 {
			return o
		}
		sides = append(sides, runs[i].Series)
	}
	o.Curves = curves(sides)
	return o
}
