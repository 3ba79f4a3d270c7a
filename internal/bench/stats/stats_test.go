package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: %.12g, want %.12g", what, got, want)
	}
}

// The wanted numbers are those of scipy 1.17.

func TestPairs(t *testing.T) {
	a := []float64{1.00, 1.02, 0.98, 1.05, 1.01, 0.99, 1.03}
	b := []float64{0.97, 1.00, 0.97, 1.01, 1.00, 0.96, 0.99}
	e, err := Pairs(a, b)
	if err != nil || !e.Paired || e.N != 7 || e.Interval == nil {
		t.Fatal(e, err)
	}
	near(t, "p", e.P, 0.015625)
	near(t, "ratio", e.Ratio, 0.9752788310929643)
	near(t, "low", e.Interval.Low, 0.9619047619047618)
	near(t, "high", e.Interval.High, 0.9897959183673469)
	if e, err := Pairs(a[:5], b[:5]); err != nil || e.Interval != nil || e.P != 0.0625 {
		t.Errorf("five pairs say %+v, %v", e, err)
	}
	if e, err := Pairs(a[:6], b[:6]); err != nil || e.Interval == nil {
		t.Errorf("six pairs say %+v, %v", e, err)
	}
	if e, err := Pairs(a, a); err != nil || e.P != 1 || e.Ratio != 1 || *e.Interval != (Interval{1, 1}) {
		t.Errorf("equal sides: %+v, %v", e, err)
	}
	near(t, "equal differences share ranks", signedRank([]float64{1, 1, 2, -1, 3, 3, -2, 4}), 0.140625)
	near(t, "and none count nothing", signedRank([]float64{1, 1, 0, 2, -1, 3, 3, -2, 4}), 0.140625)
}

func TestGroups(t *testing.T) {
	e, err := Groups([]float64{1, 2, 3, 4, 5, 6, 7, 8.5}, []float64{2.5, 4.5, 6.5, 8, 9, 10})
	if err != nil || e.Paired || e.N != 6 || e.Interval == nil {
		t.Fatal(e, err)
	}
	near(t, "p", e.P, 0.18115218115218118)
	near(t, "ratio", e.Ratio, 1.5)
	if e, err := Groups([]float64{5, 5, 5}, []float64{5, 5}); err != nil || e.P != 1 || e.Interval != nil {
		t.Errorf("equal sides: %+v, %v", e, err)
	}
	// P(U ≤ 8) of 8 and 6 values is 0.0213, P(U ≤ 9) 0.0296.
	if got := mostLarger(8, 6); got != 8 {
		t.Errorf("U is %d at most", got)
	}
	if got := mostRanks(7); got != 2 {
		t.Errorf("the signed-rank statistic of 7 is %d at most", got)
	}
}

func TestWhatHasNoRatioIsRefused(t *testing.T) {
	for _, bad := range [][2][]float64{{{1, 0}, {1, 1}}, {{1, 1}, {1, -1}}, {{1, math.NaN()}, {1, 1}},
		{{1, math.Inf(1)}, {1, 1}}, {}} {
		if e, err := Pairs(bad[0], bad[1]); err == nil {
			t.Errorf("pairs of %v: %+v", bad, e)
		}
		if e, err := Groups(bad[0], bad[1]); err == nil {
			t.Errorf("groups of %v: %+v", bad, e)
		}
	}
	if _, err := Pairs([]float64{1}, []float64{1, 2}); err == nil {
		t.Error("a pair has two values")
	}
}

func TestManyPairsAreCountedAsFewAre(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	d := make([]float64, exactly+1)
	for i := range d {
		d[i] = r.NormFloat64() + 0.2
	}
	approximate := signedRank(d)
	exact := 0.0
	twice, positive, sizes := []int{}, 0, []float64{}
	for _, v := range d {
		sizes = append(sizes, math.Abs(v))
	}
	slices.Sort(sizes)
	for i := range sizes {
		twice = append(twice, i+1)
	}
	for _, v := range d {
		if v > 0 {
			at, _ := slices.BinarySearch(sizes, v)
			positive += twice[at]
		}
	}
	positive = min(positive, len(d)*(len(d)+1)/2-positive)
	for _, p := range rankSums(twice)[:positive+1] {
		exact += 2 * p
	}
	if math.Abs(exact-approximate) > 0.005 {
		t.Errorf("p of %d pairs: %g, counted out %g", len(d), approximate, exact)
	}
	if a, b := mostRanks(exactly), mostRanks(exactly+1); b-a < 10 || b-a > 30 {
		t.Errorf("the signed-rank statistic of %d is %d at most, and of one more %d", exactly, a, b)
	}
	if a, b := mostLarger(exactly, exactly), mostLarger(exactly, exactly+1); b-a < 5 || b-a > 40 {
		t.Errorf("the Mann–Whitney statistic of %d and %[1]d is %d at most, and with one more %d", exactly, a, b)
	}
}

func TestAdjust(t *testing.T) {
	want := []float64{0.025, 0.05, 0.05, 0.2, 0.025}
	for i, got := range Adjust([]float64{0.01, 0.04, 0.03, 0.20, 0.005}) {
		near(t, "adjusted", got, want[i])
	}
	if got := Adjust(nil); len(got) != 0 {
		t.Error(got)
	}
}

func TestFisher(t *testing.T) {
	near(t, "3 of 20 and 10 of 20", Fisher(3, 20, 10, 20), 0.040742395024931176)
	near(t, "none of 84 and 6 of 84", Fisher(0, 84, 6, 84), 0.02849404370288982)
	near(t, "none", Fisher(0, 7, 0, 7), 1)
	near(t, "all", Fisher(7, 7, 7, 7), 1)
	near(t, "nobody tried", Fisher(0, 0, 3, 7), 1)
}

func TestSummarise(t *testing.T) {
	s := Summarise([]float64{9, 1, 8, 2, 7, 3})
	if s.N != 6 || s.Median != 5 || s.Min != 1 || s.Max != 9 || s.MAD != 3 || s.Interval == nil ||
		*s.Interval != (Interval{1, 9}) {
		t.Errorf("%+v", s)
	}
	if s := Summarise([]float64{4, 5, 6, 7, 8}); s.Interval != nil || s.Median != 6 {
		t.Errorf("five values have no interval: %+v", s)
	}
	if s := Summarise(nil); s != (Summary{}) {
		t.Errorf("%+v", s)
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		e    Effect
		want Verdict
	}{
		{Effect{Ratio: 0.95, P: 0.01, Interval: &Interval{0.93, 0.97}}, Differs},
		{Effect{Ratio: 0.99, P: 0.01, Interval: &Interval{0.985, 0.995}}, Equal}, // by less than matters
		{Effect{Ratio: 1, P: 0.6, Interval: &Interval{0.985, 1.015}}, Equal},
		{Effect{Ratio: 0.99, P: 0.2, Interval: &Interval{0.96, 1.03}}, Undecided},
		{Effect{Ratio: 0.97, P: 0.06, Interval: &Interval{0.94, 0.999}}, Undecided},
		{Effect{Ratio: 0.5, P: 0.0625}, Undecided},
	} {
		if got := c.e.Verdict(Margin); got != c.want {
			t.Errorf("%+v: %s, want %s", c.e, got, c.want)
		}
	}
	e := Effect{Ratio: 1, Interval: &Interval{0.985, 1.015}}
	if !e.Precise(0.02) || e.Precise(0.01) || (Effect{Ratio: 1}).Precise(1) {
		t.Error("precision")
	}
}

// An interval that is off by one of its ends holds the truth in 91 of 100 cases, which nothing but this shows. Pairs are 2 %
// apart from each other, sides 1 %, and B is 2 % below A.
func TestIntervalsHoldTheTruthAsOftenAsTheySay(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	noise := func(part float64) float64 { return math.Exp(part * r.NormFloat64()) }
	const series = 2000
	for _, n := range []int{6, 7, 10} {
		pairs, groups, found := 0, 0, 0
		for range series {
			a, b, c := make([]float64, n), make([]float64, n), make([]float64, n+2)
			for i := range n {
				place := noise(0.02)
				a[i], b[i] = place*noise(0.01), 0.98*place*noise(0.01)
			}
			for i := range c {
				c[i] = 0.98 * noise(0.02) * noise(0.01)
			}
			e, err := Pairs(a, b)
			g, err2 := Groups(a, c)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			pairs += count(e.Interval.Contains(0.98))
			groups += count(g.Interval.Contains(0.98))
			found += count(e.P < alpha)
		}
		for kind, held := range map[string]int{"pairs": pairs, "groups": groups} {
			if part := float64(held) / series; part < 0.94 || part > 0.985 {
				t.Errorf("%d %s: %.3f of intervals hold the truth", n, kind, part)
			}
		}
		t.Logf("%d pairs: %.3f of intervals hold the truth, %.3f of groups'; 2 %% are found in %.2f", n, float64(pairs)/series,
			float64(groups)/series, float64(found)/series)
	}
}

// 200 comparisons of seven pairs for each true ratio. Which verdict each gets decides what a report says: of equal sides one in
// twenty may differ, and one 5 % slower is never called equal.
func TestVerdictsOfSevenPairsAreAsRightAsTheySay(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	noise := func(part float64) float64 { return math.Exp(part * r.NormFloat64()) }
	const comparisons, pairs = 200, 7
	for _, truth := range []struct {
		ratio float64
		rates map[Verdict][2]float64 // from, to
	}{
		{1, map[Verdict][2]float64{Equal: {0.55, 1}, Differs: {0, 0.06}}},
		{0.98, map[Verdict][2]float64{Equal: {0, 0.05}, Differs: {0.75, 1}}},
		{0.95, map[Verdict][2]float64{Equal: {0, 0}, Differs: {0.95, 1}}},
	} {
		said := map[Verdict]float64{}
		for range comparisons {
			a, b := make([]float64, pairs), make([]float64, pairs)
			for i := range pairs {
				place := noise(0.02)
				a[i], b[i] = place*noise(0.01), truth.ratio*place*noise(0.01)
			}
			e, err := Pairs(a, b)
			if err != nil {
				t.Fatal(err)
			}
			said[e.Verdict(Margin)] += 1. / comparisons
		}
		t.Logf("ratio %g: %.3f equal, %.3f differ, %.3f not decided", truth.ratio, said[Equal], said[Differs], said[Undecided])
		for verdict, rate := range truth.rates {
			if said[verdict] < rate[0]-1e-9 || said[verdict] > rate[1]+1e-9 {
				t.Errorf("ratio %g: %.3f are %s, not %g to %g", truth.ratio, said[verdict], verdict, rate[0], rate[1])
			}
		}
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// What does not depend on which side is called A, and on the unit.
func TestAComparisonIsOfTwoSidesAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Float64Range(0.001, 1e6)
		n := rapid.IntRange(1, 12).Draw(t, "n")
		a, b := rapid.SliceOfN(value, n, n).Draw(t, "a"), rapid.SliceOfN(value, n, n).Draw(t, "b")
		unit := rapid.Float64Range(0.5, 2).Draw(t, "unit")
		other := func(values []float64) (all []float64) {
			for _, v := range values {
				all = append(all, v*unit)
			}
			return all
		}
		for _, compare := range []func(a, b []float64) (Effect, error){Pairs, Groups} {
			one, err1 := compare(a, b)
			two, err2 := compare(b, a)
			three, err3 := compare(other(a), other(b))
			if err1 != nil || err2 != nil || err3 != nil {
				t.Fatal(err1, err2, err3)
			}
			if math.Abs(one.Ratio*two.Ratio-1) > 1e-6 || math.Abs(one.P-two.P) > 1e-6 ||
				math.Abs(three.Ratio/one.Ratio-1) > 1e-6 {
				t.Fatalf("%+v\n%+v\n%+v", one, two, three)
			}
			if i := one.Interval; i != nil && (i.Low > one.Ratio*(1+1e-12) || i.High < one.Ratio*(1-1e-12)) {
				t.Fatalf("the ratio lies beside its interval: %+v %+v", one, *i)
			}
		}
	})
}
