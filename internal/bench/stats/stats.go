// Package stats says what samples of a benchmark show: of one side, and of one beside another.
//
// What enters: numbers that were measured. What leaves: estimates with their uncertainty, in numbers and as a verdict. It is
// pure, and assumes nothing about how values are distributed.
package stats

import (
	"cmp"
	"math"
	"slices"

	moremath "github.com/aclements/go-moremath/stats"

	"muster/internal/kit/lists"
)

// Confidence is that of all intervals.
const Confidence = 0.95

// alpha is the largest p-value that shows a difference.
const alpha = 1 - Confidence

// Interval holds the true value in 95 of 100 cases.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Contains says that a value is in the interval, bounds included.
func (i Interval) Contains(v float64) bool { return i.Low <= v && v <= i.High }

// Within says that the interval lies in another as a whole.
func (i Interval) Within(o Interval) bool { return o.Low <= i.Low && i.High <= o.High }

// Summary describes values of one side, in their unit.
type Summary struct {
	N        int       `json:"n"`
	Median   float64   `json:"median"`
	Interval *Interval `json:"interval,omitempty"` // of the median; nil: fewer than six values say none
	Min      float64   `json:"min"`
	Lower    float64   `json:"lower"` // quartiles
	Upper    float64   `json:"upper"`
	Max      float64   `json:"max"`
	MAD      float64   `json:"mad"` // median distance from the median
}

// Summarise describes values; of none all is 0. The interval of the median is by order statistics (Conover, Practical
// Nonparametric Statistics, 3.2).
func Summarise(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	sample := moremath.Sample{Xs: sorted, Sorted: true}
	s := Summary{N: len(sorted), Min: sorted[0], Max: sorted[len(sorted)-1], Median: median(sorted),
		Lower: sample.Quantile(0.25), Upper: sample.Quantile(0.75)}
	_, low, high := moremath.QuantileCI(len(sorted), 0.5, Confidence).SampleCI(sample)
	if finite(low) && finite(high) {
		s.Interval = &Interval{low, high}
	}
	distances := lists.Map(sorted, func(v float64) float64 { return math.Abs(v - s.Median) })
	slices.Sort(distances)
	s.MAD = median(distances)
	return s
}

// median is that of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Adjust corrects p-values of many comparisons that are looked at together, so that of those below 0.05 at most one in twenty is
// by chance (Benjamini and Hochberg, J. R. Statist. Soc. B 57, 1995). The order is that of p.
func Adjust(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
	adjusted, least := make([]float64, len(p)), 1.0
	for i, at := range order { // from the largest
		least = min(least, p[at]*float64(len(p))/float64(len(p)-i))
		adjusted[at] = least
	}
	return adjusted
}

// Fisher is the two-sided p-value of failures on two sides, of all that were tried on each (Fisher's exact test).
func Fisher(failedA, ofA, failedB, ofB int) float64 {
	failed := failedA + failedB
	if ofA < 1 || ofB < 1 || failed == 0 || failed == ofA+ofB {
		return 1
	}
	d := moremath.HypergeometicDist{N: ofA + ofB, K: failed, Draws: ofA}
	seen, p := d.PMF(float64(failedA)), 0.0
	for k := max(0, failed-ofB); k <= min(failed, ofA); k++ {
		if q := d.PMF(float64(k)); q <= seen*(1+1e-9) {
			p += q
		}
	}
	return min(p, 1)
}
