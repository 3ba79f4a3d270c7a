package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Change is where a series of values, one after the other in time, goes over to another level.
type Change struct {
	At     int     `json:"at"`     // index of the first value of the new level
	Before float64 `json:"before"` // medians of the levels, in the values' unit
	After  float64 `json:"after"`
	Sure   bool    `json:"sure"` // the new level has more than three values: where it begins may still be seen otherwise
}

const (
	shortest     = 2   // values of a level: fewer have no spread
	sureFrom     = 4   // values of the newest level
	permutations = 199 // at most one of them may look as changed as the series does
)

// Changes finds the levels of a series, in time's order, by the energy statistic of E-divisive (Matteson and James, J. Am. Stat.
// Assoc. 109, 2014): it splits where both parts differ most, if that is more than in 99 of 100 orders of the same values, and
// looks on in both parts. Levels that are less than a part of each other apart, least, are one. The same series has the same
// changes.
func Changes(series []float64, least float64) []Change {
	at := divide(series, rand.New(rand.NewPCG(uint64(len(series)), 0)))
	for {
		changes, weakest, weight := levels(series, at), -1, least
		for i, c := range changes {
			if apart := math.Abs(c.After-c.Before) / math.Abs(c.Before); apart < weight {
				weakest, weight = i, apart
			}
		}
		if weakest < 0 {
			return changes
		}
		at = slices.Delete(at, weakest, weakest+1)
	}
}

// Newest is the change that began the newest level of a series, if that is sure.
func Newest(series []float64, least float64) (Change, bool) {
	old := len(series) - sureFrom
	if old < shortest {
		return Change{}, false
	}
	before, now := level(series[:old]), level(series[old:])
	if before == 0 || math.Abs(now-before) < least*math.Abs(before) {
		return Change{}, false // as it is nearly always; a level that has come and gone is not the newest
	}
	all := Changes(series, least)
	if len(all) == 0 {
		return Change{}, false
	}
	newest := all[len(all)-1]
	return newest, newest.Sure
}

func level(values []float64) float64 { return median(slices.Sorted(slices.Values(values))) }

// levels describes changes by where they are.
func levels(series []float64, at []int) []Change {
	var all []Change
	for i, begin := range at {
		from, to := 0, len(series)
		if i > 0 {
			from = at[i-1]
		}
		if i+1 < len(at) {
			to = at[i+1]
		}
		all = append(all, Change{At: begin, Before: level(series[from:begin]), After: level(series[begin:to]),
			Sure: to < len(series) || to-begin >= sureFrom})
	}
	return all
}

// divide is where a series changes, sorted.
func divide(series []float64, random *rand.Rand) []int {
	at, energy := split(series)
	if at < 0 {
		return nil
	}
	shuffled, alike := slices.Clone(series), 0
	for range permutations {
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if _, other := split(shuffled); other >= energy {
			if alike++; alike > 1 { // (1 + 1) of (1 + 199) is a p-value of 0.01
				return nil
			}
		}
	}
	all := append(divide(series[:at], random), at)
	for _, later := range divide(series[at:], random) {
		all = append(all, at+later)
	}
	return all
}

// split finds where the parts of a series differ most, and by how much; -1: it has no two parts.
func split(series []float64) (at int, energy float64) {
	n := len(series)
	between, left, right := 0.0, 0.0, 0.0 // sums of distances between two values: of both parts, or of one
	for i := range series {
		for j := range i {
			right += math.Abs(series[i] - series[j])
		}
	}
	at = -1
	for i := range n - shortest {
		before, after := 0.0, 0.0
		for j := range series {
			if d := math.Abs(series[i] - series[j]); j < i {
				before += d
			} else {
				after += d
			}
		}
		left, right, between = left+before, right-after, between+after-before
		l, r := float64(i+1), float64(n-i-1)
		if i+1 < shortest {
			continue
		}
		e := l * r / float64(n) * (2*between/(l*r) - 2*left/(l*(l-1)) - 2*right/(r*(r-1)))
		if at < 0 || e > energy {
			at, energy = i+1, e
		}
	}
	return at, energy
}
