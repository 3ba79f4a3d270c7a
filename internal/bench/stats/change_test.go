package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestChanges(t *testing.T) {
	wave := func(n int, level float64) (all []float64) {
		for i := range n {
			all = append(all, level*(1+0.01*math.Sin(float64(i*i))))
		}
		return all
	}
	series := append(append(wave(20, 100), wave(20, 90)...), wave(3, 110)...)
	got := Changes(series, Margin)
	if len(got) != 2 || got[0].At != 20 || got[1].At != 40 || !got[0].Sure || got[1].Sure ||
		math.Abs(got[0].Before-100) > 1 || math.Abs(got[0].After-90) > 1 || math.Abs(got[1].After-110) > 1 {
		t.Errorf("%+v", got)
	}
	if again := Changes(series, Margin); fmt.Sprint(again) != fmt.Sprint(got) {
		t.Errorf("at first %+v, then %+v", got, again)
	}
	if got := Changes(series, 0.15); len(got) != 1 || got[0].At != 40 {
		t.Errorf("levels that are 10 %% apart are one: %+v", got)
	}
	for n := range 4 {
		if got := Changes(wave(n, 1), Margin); len(got) > 0 {
			t.Errorf("%d values: %+v", n, got)
		}
	}
	if got := Changes(make([]float64, 50), Margin); len(got) > 0 {
		t.Errorf("a series that stays as it is: %+v", got)
	}
}

// With noise of 2 %, what is found of steps some values after they came, and what is seen where nothing is.
func TestStepsAreFoundSoon(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	found := func(step float64, after int) float64 {
		const series, before = 100, 30
		n := 0
		for range series {
			values := make([]float64, before+after)
			for i := range values {
				if values[i] = 1 + 0.02*r.NormFloat64(); i >= before {
					values[i] *= 1 + step
				}
			}
			seen := false
			for _, c := range Changes(values, Margin) {
				seen = seen || step == 0 || c.At >= before-2
			}
			n += count(seen)
		}
		return float64(n) / series
	}
	for _, c := range []struct {
		step       float64
		after      int
		least, top float64
	}{{-0.05, 7, 0.9, 1}, {-0.10, 3, 0.95, 1}, {0, 0, 0, 0.05}} {
		got := found(c.step, c.after)
		if t.Logf("a step of %.0f %% after %d values: seen in %.2f", 100*c.step, c.after, got); got < c.least || got > c.top {
			t.Errorf("a step of %.0f %% after %d values: seen in %.2f", 100*c.step, c.after, got)
		}
	}
}

// TestTheNewestLevelIsSeenOnceItIsSure: not by two values, not by what has come and gone, and by four.
func TestTheNewestLevelIsSeenOnceItIsSure(t *testing.T) {
	old := []float64{100, 101, 99, 100.5, 99.5, 100, 101.5, 98.5, 100, 99}
	for _, c := range []struct {
		then []float64
		at   int // -1: it is not seen
	}{
		{nil, -1}, {[]float64{80, 81}, -1}, {[]float64{80, 81, 79}, -1}, {[]float64{80, 81, 79, 80}, 10},
		{[]float64{80, 81, 79, 80, 100, 101, 99, 100}, -1}, {[]float64{97, 98, 96, 97}, -1},
		{[]float64{120, 121, 119, 122, 120}, 10},
	} {
		got, sure := Newest(append(slices.Clone(old), c.then...), 0.05)
		if sure != (c.at >= 0) || sure && (got.At != c.at || math.Abs(got.Before-100) > 1) {
			t.Errorf("%v: %+v, %v", c.then, got, sure)
		}
	}
	if _, sure := Newest([]float64{0, 0, 0, 0, 0, 1, 1, 1, 1}, 0.05); sure {
		t.Error("of nothing, nothing is a part")
	}
}
