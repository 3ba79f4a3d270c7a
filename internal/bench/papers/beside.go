package papers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
)

// Page is a paper beside runs of its suite.
type Page struct {
	Paper
	Runs      []string // what they are called
	Shown     []Shown  // its panels
	Judged    []Judged // its claims
	Published int      // how many numbers its panels have
	Beside    int      // how many of those stand beside a measured one
}

// Shown is a panel with what was measured beside it.
type Shown struct {
	Panel
	Own   []Own  // of a table: a row for each run that has something of it
	Lines []Line // of a figure: the paper's first
	Why   string // nothing was measured
}

// Own is a row of what was measured.
type Own struct {
	What  string
	Cells []Cell // one for each part
	Limit bool   // it is not measured, but what the nodes can do at most
}

// Cell is a measured value in the panel's unit.
type Cell struct {
	Known            bool
	Value, Low, High float64
}

// Line is one of a figure.
type Line struct {
	Name      string
	Published bool
	Limit     bool
	Points    []Point // by x
}

// Point is a value at an x.
type Point struct{ X, Value, Low, High float64 }

// BesideRuns finds what runs show of the paper's panels and claims. Runs of other suites are left out; the earliest comes first.
func (p Paper) BesideRuns(all []export.Run, comparisons []apiv1.BenchmarkComparison) (Page, error) {
	page := Page{Paper: p}
	runs := lists.Filter(all, func(r export.Run) bool { return r.Suite == p.Suite })
	slices.SortFunc(runs, func(a, b export.Run) int { return a.CreatedAt.Compare(b.CreatedAt) })
	page.Runs = lists.Map(runs, func(r export.Run) string { return fmt.Sprintf("%s on %s", r.ID, r.Cluster) })
	for _, panel := range p.Panels {
		shown, err := panel.beside(runs)
		if err != nil {
			return page, fmt.Errorf("%s, %s: %w", p.Suite, panel.Figure, err)
		}
		published, beside := shown.count()
		page.Published, page.Beside = page.Published+published, page.Beside+beside
		page.Shown = append(page.Shown, shown)
	}
	for _, c := range p.Claims {
		judged, err := c.judge(runs, comparisons)
		if err != nil {
			return page, fmt.Errorf("%s, %s: %w", p.Suite, c.Figure, err)
		}
		page.Judged = append(page.Judged, judged)
	}
	return page, nil
}

// beside finds what is beside a panel.
func (p Panel) beside(runs []export.Run) (Shown, error) {
	shown := Shown{Panel: p}
	choices := make([]choice, len(p.Each))
	for i, part := range p.Each {
		var err error
		if choices[i], err = parse(strings.TrimSpace(p.Of + " " + part.Of)); err != nil {
			return shown, err
		}
	}
	if p.X != "" {
		shown.drawn(choices, runs)
	} else {
		shown.listed(choices, runs)
	}
	if len(shown.Own) == 0 && !shown.drew() {
		shown.Why = whyNot(choices, runs)
	}
	return shown, nil
}

// listed finds the rows of runs.
func (s *Shown) listed(choices []choice, runs []export.Run) {
	for i, r := range runs {
		all, side, bounds := measuredBy(r), sideOf(r), limitsOf(r)
		own, some := Own{Cells: make([]Cell, len(choices))}, false
		limit := Own{Cells: make([]Cell, len(choices)), Limit: true}
		nodes := ""
		for k, c := range choices {
			m, found := c.one(all)
			if c.side != "" && c.side != side {
				continue
			}
			if own.Cells[k] = s.cell(m, found); own.Cells[k].Known {
				some, nodes = true, m.of["nodes"]
				if most, why, known := bounds.of(c, m, s.Unit); known {
					limit.Cells[k], limit.What = most, fmt.Sprintf("limit of %s: %s", r.Cluster, why)
				}
			}
		}
		if !some {
			continue
		}
		n, _ := strconv.Atoi(nodes)
		own.What = fmt.Sprintf("%s, %s of %s", r.Cluster, words.Count(n, "node"), words.Count(r.On.Cores, "core"))
		if s.Times {
			own.What += fmt.Sprintf(", T%d", i+1)
		}
		s.Own = append(s.Own, own)
		if limit.What != "" && !s.Times { // whose rows are counted
			s.Own = append(s.Own, limit)
		}
	}
}

// cell is what was measured in the panel's unit.
func (s *Shown) cell(m measured, found bool) Cell {
	by, same := factor(m.unit, s.Unit)
	if !found || !same {
		return Cell{}
	}
	c := Cell{Known: true, Value: m.value * by, Low: m.value * by, High: m.value * by}
	if m.interval != nil {
		c.Low, c.High = m.interval.Low*by, m.interval.High*by
	}
	return c
}

// drawn finds the lines of runs.
func (s *Shown) drawn(choices []choice, runs []export.Run) {
	for i, part := range s.Each {
		line := Line{Name: cmp.Or(part.Name, "published"), Published: true}
		for _, row := range s.Rows {
			if x, err := strconv.ParseFloat(row.What, 64); err == nil && i < len(row.Is) {
				line.Points = append(line.Points, Point{x, (row.Is[i].Low + row.Is[i].High) / 2, row.Is[i].Low, row.Is[i].High})
			}
		}
		if len(line.Points) > 0 {
			s.Lines = append(s.Lines, line)
		}
	}
	for _, r := range runs {
		all, bounds := measuredBy(r), limitsOf(r)
		limit, limited := Line{Limit: true}, map[float64]bool{}
		for i, c := range choices {
			at := s.divided(c.of(all))
			for _, of := range slices.SortedFunc(maps.Keys(at), byNumber) {
				line := Line{Name: s.called(i, of)}
				if len(runs) > 1 {
					line.Name = strings.TrimSpace(line.Name + ", " + r.Cluster + " " + r.ID)
				}
				for _, x := range slices.Sorted(maps.Keys(at[of])) {
					m, found := best(at[of][x])
					if v := s.cell(m, found); v.Known {
						line.Points = append(line.Points, Point{x, v.Value, v.Low, v.High})
					}
					if most, why, known := bounds.of(c, m, s.Unit); known && !limited[x] {
						limited[x], limit.Name = true, fmt.Sprintf("limit of %s: %s", r.Cluster, why)
						limit.Points = append(limit.Points, Point{x, most.Value, most.Value, most.Value})
					}
				}
				if len(line.Points) > 0 {
					s.Lines = append(s.Lines, line)
				}
			}
		}
		if len(limit.Points) > 0 {
			slices.SortFunc(limit.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
			s.Lines = append(s.Lines, limit)
		}
	}
}

// divided are things by what divides the panel's lines, and by their x. Where the panel has no unit, it gets theirs.
func (s *Shown) divided(all []measured) map[string]map[float64][]measured {
	at := map[string]map[float64][]measured{}
	for _, m := range all {
		s.Unit = cmp.Or(s.Unit, m.unit)
		x, err := strconv.ParseFloat(m.of[s.X], 64)
		if err != nil {
			continue
		}
		of := m.of[s.Panel.Lines]
		if at[of] == nil {
			at[of] = map[float64][]measured{}
		}
		at[of][x] = append(at[of][x], m)
	}
	return at
}

// called is what a part's line is called that is divided by a value; "": it is not.
func (s *Shown) called(part int, by string) string {
	if name := s.Each[part].Name; name != "" || by == "" {
		return strings.TrimSpace(name + " " + by)
	}
	return s.Panel.Lines + " " + by
}

// drew says that a figure has a line of what was measured.
func (s *Shown) drew() bool {
	return slices.ContainsFunc(s.Lines, func(l Line) bool { return !l.Published && !l.Limit })
}

// byNumber orders texts that are numbers by these.
func byNumber(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
}

// count says how many published numbers there are, and how many of them have a measured one beside them.
func (s *Shown) count() (published, beside int) {
	drawn := s.drew()
	for i, row := range s.Rows {
		for k := range row.Is {
			published++
			known := func(o Own) bool { return !o.Limit && k < len(o.Cells) && o.Cells[k].Known }
			switch {
			case s.Times && (i >= len(s.Own) || !known(s.Own[i])):
			case drawn || slices.ContainsFunc(s.Own, known):
				beside++
			}
		}
	}
	return published, beside
}

// whyNot says why nothing was measured.
func whyNot(choices []choice, runs []export.Run) string {
	if len(runs) == 0 {
		return "no run of its suite is here"
	}
	for _, r := range runs {
		for _, step := range r.Problems {
			if slices.ContainsFunc(choices, func(c choice) bool { return c.recipe == step.Recipe }) && step.Why != "" {
				return step.Why
			}
		}
	}
	return "no step has measured it on these nodes"
}

// factor is what a value in one unit is in another; false: they are not of one kind. A unit that is not known, or none, is its
// own.
func factor(from, to string) (float64, bool) {
	if from == to || to == "" || from == "" {
		return 1, true
	}
	type unit struct {
		kind string
		of   float64
	}
	units := map[string]unit{
		"s": {"time", 1}, "ms": {"time", 1e-3}, "µs": {"time", 1e-6},
		"Mbit/s": {"rate", 1e6}, "Gbit/s": {"rate", 1e9}, "MB/s": {"rate", 8e6}, "GB/s": {"rate", 8e9},
		"MFLOP/s": {"flops", 1e6}, "GFLOP/s": {"flops", 1e9}, "TFLOP/s": {"flops", 1e12},
	}
	a, b := units[from], units[to]
	return a.of / max(b.of, 1e-300), a.kind != "" && a.kind == b.kind
}
