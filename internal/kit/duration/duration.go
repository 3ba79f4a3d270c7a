// Package duration reads and writes lengths of time as users do: 90s, 1h30m, 30d.
//
// What enters: a text from a cluster file, the site file, a request or the command line. What leaves: the duration, or an error
// that reads the same everywhere.
package duration

import (
	"fmt"
	"time"

	"muster/internal/kit/pattern"
)

// Form is the grammar, as a regular expression without anchors: numbers, each with its unit.
const Form = `([0-9]{1,8}(\.[0-9]{1,3})?(w|d|h|ms|m|s)){1,6}`

// Hint says what to write.
const Hint = "a number with w, d, h, m or s, as in 90s, 1h30m or 30d"

// Longest is the longest duration, a hundred years.
const Longest = 36525 * 24 * time.Hour

var (
	form = pattern.New(`^` + Form + `$`)
	part = pattern.New(`([0-9.]+)([a-z]+)`)
)

// days are the units that time.ParseDuration does not know, in hours.
var days = map[string]time.Duration{"w": 7 * 24, "d": 24}

// Parse reads a duration from 0 to Longest. "0" needs no unit.
func Parse(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	wrong := fmt.Errorf("%.40q is not a duration: write "+Hint, text)
	if !form.MatchString(text) {
		return 0, wrong
	}
	var sum time.Duration
	for _, p := range part.Regexp().FindAllStringSubmatch(text, -1) {
		number, unit, times := p[1], p[2], time.Duration(1)
		if hours, long := days[unit]; long {
			unit, times = "h", hours
		}
		d, err := time.ParseDuration(number + unit)
		if err != nil || d > Longest/times || sum > Longest-d*times {
			return 0, wrong
		}
		sum += d * times
	}
	return sum, nil
}

// Within reads a duration from least to most.
func Within(text string, least, most time.Duration) (time.Duration, error) {
	d, err := Parse(text)
	if err == nil && (d < least || d > most) {
		return 0, fmt.Errorf("%q is not from %s to %s: write "+Hint, text, bound(least), Text(most))
	}
	return d, err
}

func bound(d time.Duration) string {
	if d%time.Second != 0 {
		return d.String()
	}
	return Text(d)
}

// Text writes a duration in whole seconds, in the largest unit that tells these exactly. What is left of a second is left out.
func Text(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = d.Truncate(time.Second); {
	case d == 0:
		return "0s"
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// Value is a duration as a flag of the command line. It implements the flag packages' interface Value.
type Value time.Duration

// Set reads the flag's text. It returns Parse's errors.
func (v *Value) Set(text string) error {
	d, err := Parse(text)
	*v = Value(d)
	return err
}

// String is the flag's default in the help: none for zero.
func (v *Value) String() string {
	if *v == 0 {
		return ""
	}
	return Text(time.Duration(*v))
}

// Type is what the help calls the value.
func (v *Value) Type() string { return "duration" }
