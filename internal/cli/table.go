package cli

import (
	"fmt"
	"time"

	"github.com/charmbracelet/x/ansi"

	"muster/internal/kit/lists"
)

// table is aligned columns without borders.
type table struct {
	head []string
	rows [][]shown
	most int // columns of a cell
}

// A cell of a list is cut, as what others wrote there may be of any length. What describes one thing shows it whole.
const (
	mostListed = 200
	mostWhole  = 8 << 10
)

// newTable is a list of things with a heading, or without one a list of facts about one thing.
func newTable(head ...string) *table {
	t := &table{head: head, most: mostListed}
	if len(head) == 0 {
		t.most = mostWhole
	}
	return t
}

// whole makes a table show its cells as long as they are.
func (t *table) whole() *table {
	t.most = mostWhole
	return t
}

// row adds one; its cells are values of any kind.
func (t *table) row(cells ...any) {
	row := make([]shown, len(cells))
	for i, c := range cells {
		row[i] = cut(cell(c), t.most)
	}
	t.rows = append(t.rows, row)
}

// fact adds a row about one thing, unless its value says nothing.
func (t *table) fact(name string, value any) {
	if text := cell(value); text != "" {
		t.row(name, text)
	}
}

// printBelow prints a table apart from what stands above it, if it has rows.
func (t *table) printBelow(s *screen) {
	if len(t.rows) > 0 {
		s.gap()
		t.print(s)
	}
}

// print leaves out columns that have a heading only.
func (t *table) print(s *screen) {
	rows := t.rows
	if len(t.head) > 0 {
		head := lists.Map(t.head, func(name string) shown { return cell(name) })
		rows = append([][]shown{head}, rows...)
	}
	widths := map[int]int{}
	filled := map[int]bool{}
	for i, row := range rows {
		for column, text := range row {
			widths[column] = max(widths[column], ansi.StringWidth(string(text)))
			filled[column] = filled[column] || text != "" && (i > 0 || len(t.head) == 0 || len(rows) == 1)
		}
	}
	for _, row := range rows {
		var all shown
		gap := 0
		for column, text := range row {
			if !filled[column] {
				continue
			}
			if text != "" {
				all += spaces(gap) + text
				gap = 0
			}
			gap += widths[column] - ansi.StringWidth(string(text)) + 2
		}
		s.put(all + "\n")
	}
}

// textIf is a text where something is so, and "" elsewhere. It is made in either case.
func textIf(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// textOf is what say makes of a value; "" where that is not known.
func textOf[T any](value *T, say func(T) string) string {
	if value == nil {
		return ""
	}
	return say(*value)
}

// age is the time since t: "3m12s".
func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return short(time.Since(t))
}

// short is a duration in its two largest units.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(d, 0).Truncate(time.Second)
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// seconds is a duration as measurements are read: "1.4 s".
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
