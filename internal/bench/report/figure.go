package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"

	"muster/internal/bench/papers"
	"muster/internal/kit/words"
)

// axis maps values to places.
type axis struct {
	log       bool
	low, high float64 // values
	from, to  float64 // places
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	if high == low {
		return (a.from + a.to) / 2
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// ticks are values to mark on a logarithmic axis: 1, 2 or 5 times a power of ten, or the powers alone where there are many.
func (a axis) ticks() (all []float64) {
	steps := []float64{1, 2, 5}
	if a.high/a.low > 1e3 {
		steps = []float64{1}
	}
	for power := math.Floor(math.Log10(a.low)); power <= math.Ceil(math.Log10(a.high)); power++ {
		for _, step := range steps {
			if v := step * math.Pow(10, power); v >= a.low*0.999 && v <= a.high*1.001 {
				all = append(all, v)
			}
		}
	}
	return all
}

// around is an axis that holds all values, with a little room.
func around(values []float64, from, to float64) axis {
	low, high := slices.Min(values), slices.Max(values)
	room := (high - low) * 0.06
	if room == 0 {
		room = math.Abs(high)*0.05 + 1e-12
	}
	return axis{low: low - room, high: high + room, from: from, to: to}
}

// strip is one line of values: each round a dot, the interval a bar, the median a tick. It is as wide as its place: dots are
// lines of no length with round ends, so that they stay round.
func strip(what string, rounds []float64, low, high, median float64) template.HTML {
	if len(rounds) == 0 {
		return ""
	}
	var b strings.Builder
	a := around(append(slices.Clone(rounds), low, high, median), 0, 100)
	fmt.Fprintf(&b, `<svg class="strip" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label="%s">`,
		html.EscapeString(what))
	if low < high {
		fmt.Fprintf(&b, `<line class="band" x1="%.2f" x2="%.2f" y1="10" y2="10"/>`, a.at(low), a.at(high))
	}
	for _, v := range rounds {
		fmt.Fprintf(&b, `<line class="dot" x1="%.2f" x2="%.2f" y1="10" y2="10"/>`, a.at(v), a.at(v))
	}
	fmt.Fprintf(&b, `<line class="mid" x1="%.2f" x2="%.2f" y1="3" y2="17"/></svg>`, a.at(median), a.at(median))
	return template.HTML(b.String()) // all that is not ours is escaped
}

// ratio is a ratio on the axis that all ratios of a comparison share, with its interval, and the band in which sides are equal.
func ratio(what string, a axis, margin, value, low, high float64) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label="%s">`,
		html.EscapeString(what))
	fmt.Fprintf(&b, `<rect class="equal" x="%.2f" y="0" width="%.2f" height="20"/>`, a.at(1-margin), a.at(1+margin)-a.at(1-margin))
	fmt.Fprintf(&b, `<line class="one" x1="%.2f" x2="%.2f" y1="0" y2="20"/>`, a.at(1), a.at(1))
	if low < high {
		fmt.Fprintf(&b, `<line class="band" x1="%.2f" x2="%.2f" y1="10" y2="10"/>`, a.at(low), a.at(high))
	}
	fmt.Fprintf(&b, `<line class="mid" x1="%.2f" x2="%.2f" y1="3" y2="17"/></svg>`, a.at(value), a.at(value))
	return template.HTML(b.String()) // all that is not ours is escaped
}

// trace is a line over the points that were measured, with their intervals, and what each of them says.
func trace(b *strings.Builder, class string, x, y axis, points []papers.Point, says func(papers.Point) string) {
	var line []string
	for _, p := range points {
		line = append(line, fmt.Sprintf("%.1f,%.1f", x.at(p.X), y.at(p.Value)))
		if p.Low < p.High {
			fmt.Fprintf(b, `<line class="span %s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, class, x.at(p.X), x.at(p.X), y.at(p.Low),
				y.at(p.High))
		}
	}
	fmt.Fprintf(b, `<polyline class="%s" points="%s"/>`, class, strings.Join(line, " "))
	for _, p := range points {
		fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="3"><title>%s</title></circle>`, class, x.at(p.X), y.at(p.Value),
			escaped(says(p)))
	}
}

// curve is a quantity over sizes, both logarithmic. Sizes are marked where they were measured, by powers of two; between them is
// a line, as what is between them was not measured but lies there.
func curve(what, unit string, sides [][]papers.Point) template.HTML {
	var xs, ys []float64
	for _, side := range sides {
		for _, p := range side {
			xs, ys = append(xs, p.X), append(ys, p.Value, p.Low, p.High)
		}
	}
	if len(xs) < 2 || slices.Min(xs) <= 0 || slices.Min(ys) <= 0 {
		return ""
	}
	const width, height, left, bottom = 360, 220, 52, 30
	x := axis{true, slices.Min(xs), slices.Max(xs), left, width - 12}
	y := axis{true, slices.Min(ys) / 1.2, slices.Max(ys) * 1.2, height - bottom, 12}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="curve" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`, width, height, width,
		height, html.EscapeString(what))
	for _, v := range y.ticks() {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left, width-12, y.at(v), y.at(v), left-6, y.at(v)+4, words.Figure(v))
	}
	sizes := slices.Compact(slices.Sorted(slices.Values(xs)))
	for i, v := range sizes {
		if skip := len(sizes)/6 + 1; i%skip == 0 {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x.at(v), height-10, size(v))
		}
	}
	for i, side := range sides {
		trace(&b, []string{"a", "b"}[min(i, 1)], x, y, side, func(p papers.Point) string {
			return fmt.Sprintf("%s: %s %s", size(p.X), words.Figure(p.Value), unit)
		})
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // all that is not ours is escaped
}

// size is a number of bytes on an axis.
func size(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}} {
		if v >= unit.of && math.Mod(v, unit.of) == 0 {
			return words.Figure(v/unit.of) + unit.name
		}
	}
	return words.Figure(v)
}
