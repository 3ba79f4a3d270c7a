package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"

	moremath "github.com/aclements/go-moremath/stats"
)

// Effect is what side B has of what side A has.
type Effect struct {
	Paired   bool      `json:"paired"`             // each value of B was measured beside one of A
	N        int       `json:"n"`                  // pairs; of sides that are not paired, the values of the smaller one
	Ratio    float64   `json:"ratio"`              // B over A
	Interval *Interval `json:"interval,omitempty"` // of the ratio; nil: too few values say none
	P        float64   `json:"p"`                  // how likely values that lie so far apart are where sides are equal
}

// noRatio is the error of values that are not both above 0.
func noRatio(a, b float64) error {
	return fmt.Errorf("a ratio needs values above 0, not %g and %g", a, b)
}

// Pairs compares sides that were measured in turns: values of the same index are a pair, and what disturbs both alike does not
// count. The ratio is the Hodges–Lehmann estimate of the pairs' ratios, the interval and the p-value are those of Wilcoxon's
// signed-rank test, exact (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3.1–3.3), of the ratios' logarithms.
// Fewer than six pairs have no interval.
func Pairs(a, b []float64) (Effect, error) {
	if len(a) != len(b) || len(a) == 0 {
		return Effect{}, fmt.Errorf("pairs need as many values on each side, and one at least, not %d and %d", len(a), len(b))
	}
	d := make([]float64, len(a))
	for i := range a {
		d[i] = math.Log(b[i]) - math.Log(a[i])
		if !finite(d[i]) {
			return Effect{}, noRatio(a[i], b[i])
		}
	}
	walsh := make([]float64, 0, len(d)*(len(d)+1)/2)
	for i := range d {
		for j := range i + 1 {
			walsh = append(walsh, (d[i]+d[j])/2)
		}
	}
	slices.Sort(walsh)
	e := Effect{Paired: true, N: len(d), Ratio: math.Exp(median(walsh)), P: signedRank(d)}
	e.Interval = bounds(walsh, mostRanks(len(d)))
	return e, nil
}

// Groups compares sides that were not measured in pairs. The ratio is the Hodges–Lehmann estimate of the shift between
// logarithms, the interval and the p-value are those of the Mann–Whitney test (Hollander, Wolfe and Chicken, 4.1–4.3).
func Groups(a, b []float64) (Effect, error) {
	if len(a) == 0 || len(b) == 0 {
		return Effect{}, fmt.Errorf("each side needs a value, and they have %d and %d", len(a), len(b))
	}
	shifts := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			shift := math.Log(y) - math.Log(x)
			if !finite(shift) {
				return Effect{}, noRatio(x, y)
			}
			shifts = append(shifts, shift)
		}
	}
	slices.Sort(shifts)
	e := Effect{N: min(len(a), len(b)), Ratio: math.Exp(median(shifts)), P: 1}
	test, err := moremath.MannWhitneyUTest(a, b, moremath.LocationDiffers)
	switch {
	case err == nil:
		e.P = min(test.P, 1)
	case !errors.Is(err, moremath.ErrSamplesEqual):
		return Effect{}, fmt.Errorf("compare sides that are not paired: %w", err)
	}
	e.Interval = bounds(shifts, mostLarger(len(a), len(b)))
	return e, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// bounds is the interval between sorted estimates (of logarithms), leaving as many out at either end; below 0: there is none.
func bounds(sorted []float64, out int) *Interval {
	if out < 0 {
		return nil
	}
	return &Interval{math.Exp(sorted[out]), math.Exp(sorted[len(sorted)-1-out])}
}

// exactly is how many values of either sample, or pairs, a statistic's distribution is counted out for. Of more it is as good as
// a normal one.
const exactly = 50

// tiedExactly is the same for samples with equal values; each takes a millisecond to count out: tenants say how many quantities
// are compared.
const tiedExactly = 12

func init() { moremath.MannWhitneyTiesExactLimit = tiedExactly }

// most is the largest value that a statistic has at most with a probability of half of alpha, and -1 if it has none. How likely
// it has each value from 0 on, up to the middle at least, is counted out, unless that is nil.
func most(likely []float64, mean, variance float64) int {
	if likely == nil {
		return int(mean - 1.959964*math.Sqrt(variance))
	}
	value, sum := -1, likely[0]
	for sum <= alpha/2 {
		value++
		sum += likely[value+1]
	}
	return value
}

// signedRank is the two-sided p-value of the signed-rank test. Differences of 0 say nothing; equal ones share their ranks.
func signedRank(differences []float64) float64 {
	var sizes []float64
	for _, d := range differences {
		if d != 0 {
			sizes = append(sizes, math.Abs(d))
		}
	}
	if len(sizes) == 0 {
		return 1
	}
	slices.Sort(sizes)
	twice := make([]int, len(sizes)) // ranks, times two, so that shared ones are whole
	for i := 0; i < len(sizes); {
		j := i
		for j < len(sizes) && sizes[j] == sizes[i] {
			j++
		}
		for at := i; at < j; at++ {
			twice[at] = i + 1 + j
		}
		i = j
	}
	positive, all := 0, len(sizes)*(len(sizes)+1) // the sums of twice the ranks
	for _, d := range differences {
		if d > 0 {
			at, _ := slices.BinarySearch(sizes, d)
			positive += twice[at]
		}
	}
	positive = min(positive, all-positive)
	if n := float64(len(sizes)); n > exactly {
		z := (float64(positive)/2 - n*(n+1)/4) / math.Sqrt(n*(n+1)*(2*n+1)/24)
		return math.Erfc(-z / math.Sqrt2)
	}
	p := 0.0
	for _, likely := range rankSums(twice)[:positive+1] {
		p += 2 * likely
	}
	return min(1, p)
}

// rankSums is how likely each sum of ranks is, from 0 on, where each of them counts or does not with the same chance.
func rankSums(ranks []int) []float64 {
	likely := []float64{1}
	for _, r := range ranks {
		more := make([]float64, len(likely)+r)
		for sum, p := range likely {
			more[sum] += p / 2
			more[sum+r] += p / 2
		}
		likely = more
	}
	return likely
}

// mostRanks is the most of the signed-rank statistic of n pairs.
func mostRanks(n int) int {
	var likely []float64
	if n <= exactly {
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = i + 1
		}
		likely = rankSums(ranks)
	}
	f := float64(n)
	return most(likely, f*(f+1)/4, f*(f+1)*(2*f+1)/24)
}

// mostLarger is the most of the Mann–Whitney statistic: in how many of all couples the value of the one side, which has m, is
// larger than that of the other, which has n.
func mostLarger(m, n int) int {
	var likely []float64
	if m <= exactly && n <= exactly {
		// In how many ways of all the statistic is u, up to the middle, from where on they are the same again: coefficients of
		// the product of (1-x^(n+i))/(1-x^i) over i from 1 to m.
		likely = make([]float64, m*n/2+1)
		likely[0] = 1
		all := 1.0
		for i := 1; i <= m; i++ {
			for u := len(likely) - 1; u >= n+i; u-- {
				likely[u] -= likely[u-n-i]
			}
			for u := i; u < len(likely); u++ {
				likely[u] += likely[u-i]
			}
			all *= float64(n+i) / float64(i)
		}
		for u := range likely {
			likely[u] /= all
		}
	}
	product := float64(m) * float64(n)
	return most(likely, product/2, product*float64(m+n+1)/12)
}
