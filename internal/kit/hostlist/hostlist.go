// Package hostlist reads names of nodes in their short form, as pdsh, ClusterShell and batch systems write them:
// "n[1-3,07],gpu1".
//
// What enters: text of anybody. What leaves: names, or an error where there are more than its caller wants.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// mostPairs is how many pairs of brackets a name has: each that stands for one number makes all names again.
const mostPairs = 4

// Most is enough for any cluster.
const Most = 1 << 16

// Expand turns the short form into the names, at most so many.
func Expand(list string, most int) ([]string, error) {
	var all []string
	for list != "" {
		item, rest, err := cutItem(list)
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", list, err)
		}
		if strings.Count(item, "[") > mostPairs {
			return nil, fmt.Errorf("host list %q: more than %d pairs of brackets", item, mostPairs)
		}
		names, err := expandItem(item, most)
		if err != nil {
			return nil, fmt.Errorf("host list %q: %w", item, err)
		}
		if all = append(all, names...); len(all) > most {
			return nil, fmt.Errorf("host list of more than %d names", most)
		}
		list = rest
	}
	return all, nil
}

// cutItem cuts at the first comma outside of brackets.
func cutItem(list string) (item, rest string, err error) {
	inside := false
	for i, c := range list {
		switch {
		case c == '[' && !inside:
			inside = true
		case c == ']' && inside:
			inside = false
		case c == '[' || c == ']':
			return "", "", fmt.Errorf("unexpected %q", c)
		case c == ',' && !inside:
			return list[:i], list[i+1:], nil
		}
	}
	if inside {
		return "", "", fmt.Errorf("missing ]")
	}
	return list, "", nil
}

// expandItem expands the first pair of brackets and, by calling itself, those after it.
func expandItem(item string, most int) ([]string, error) {
	before, after, found := strings.Cut(item, "[")
	if !found {
		return []string{item}, nil
	}
	ranges, after, _ := strings.Cut(after, "]")
	tails, err := expandItem(after, most)
	if err != nil {
		return nil, err
	}
	var names []string
	for r := range strings.SplitSeq(ranges, ",") {
		numbers, err := expandRange(r, most)
		if err != nil {
			return nil, err
		}
		if len(names)+len(numbers)*len(tails) > most {
			return nil, fmt.Errorf("more than %d names", most)
		}
		for _, number := range numbers {
			for _, tail := range tails {
				names = append(names, before+number+tail)
			}
		}
	}
	return names, nil
}

// expandRange expands "3" or "08-11", keeping leading zeros.
func expandRange(r string, most int) ([]string, error) {
	from, to, isRange := strings.Cut(r, "-")
	if !isRange {
		to = from
	}
	low, err := strconv.ParseUint(from, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("bad range %q", r)
	}
	high, err := strconv.ParseUint(to, 10, 32)
	if err != nil || high < low || high-low >= uint64(most) {
		return nil, fmt.Errorf("bad range %q", r)
	}
	names := make([]string, 0, high-low+1)
	for n := low; n <= high; n++ {
		names = append(names, fmt.Sprintf("%0*d", len(from), n))
	}
	return names, nil
}
