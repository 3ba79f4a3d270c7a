// Package words puts numbers into sentences.
package words

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Count is a number of things, as in "1 node" and "2 nodes". The noun's plural ends in s.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Few names some and counts the rest.
func Few(names []string) string {
	if len(names) > 4 {
		names = append(slices.Clone(names[:3]), fmt.Sprintf("and %d more", len(names)-3))
	}
	return strings.Join(names, ", ")
}

// Were says what names were: "n1 was lost", "n1, n2 were lost".
func Were(names []string, what string) string {
	if len(names) == 1 {
		return names[0] + " was " + what
	}
	return Few(names) + " were " + what
}

// Amount is a number, to a thousandth, with its unit, as in "12.5 %".
func Amount(value float64, unit string) string {
	return strings.TrimSpace(strconv.FormatFloat(math.Round(value*1000)/1000, 'f', -1, 64) + " " + unit)
}

// Figure is a measured value to four digits: more are noise.
func Figure(v float64) string {
	if a := math.Abs(v); a >= 1000 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Naturally compares names so that mlx5_2 comes before mlx5_10. Only equal names are equal.
func Naturally(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		i, j := digits(x), digits(y)
		if i > 0 && j > 0 {
			m, n := strings.TrimLeft(x[:i], "0"), strings.TrimLeft(y[:j], "0")
			if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
				return c
			}
			x, y = x[i:], y[j:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits is how many of them a text begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// Size is a number of bytes as people read it.
func Size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if value < 10 && unit != "B" {
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.0f %s", value, unit)
}
