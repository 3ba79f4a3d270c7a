package papers

import (
	"maps"
	"slices"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/bench/stats"
	"muster/internal/kit/words"
)

// Judged is a claim with what became of it.
type Judged struct {
	Claim
	Verdict Verdict
	Why     string
	Ratio   float64 // 0: none
	Low     float64
	High    float64
}

// Verdict is what runs show of a claim.
type Verdict string

// The verdicts.
const (
	Seen      Verdict = "seen here too"
	NotSeen   Verdict = "not seen"
	Undecided Verdict = "not decided"
)

// judge compares the ratio that was measured with what the claim says of it: it is seen where the whole interval is so, and not
// seen where none of it is.
func (c Claim) judge(runs []export.Run, comparisons []apiv1.BenchmarkComparison) (Judged, error) {
	judged := Judged{Claim: c, Verdict: Undecided}
	of, err := parse(c.Of)
	if err != nil {
		return judged, err
	}
	var effect stats.Effect
	if c.Beside == native {
		effect, judged.Why = nativeRatio(of, runs, comparisons)
	} else {
		over, err := parse(c.Beside)
		if err != nil {
			return judged, err
		}
		effect, judged.Why = ownRatio(of, over, runs)
	}
	judged.Ratio, judged.Low, judged.High = effect.Ratio, effect.Ratio, effect.Ratio
	i := effect.Interval
	if i == nil {
		if judged.Why == "" {
			judged.Why = words.Count(effect.N, "round") + " do not show how sure it is: six are the fewest"
		}
		return judged, nil
	}
	judged.Low, judged.High = i.Low, i.High
	switch {
	case i.Low >= c.Least && (c.Most == 0 || i.High <= c.Most):
		judged.Verdict = Seen
	case i.High < c.Least || c.Most > 0 && i.Low > c.Most:
		judged.Verdict = NotSeen
	}
	return judged, nil
}

// ownRatio is that of two things which one run has measured in the same rounds: of the run that has most of them.
func ownRatio(of, over choice, runs []export.Run) (found stats.Effect, why string) {
	for _, r := range runs {
		all := measuredBy(r)
		a, hasA := of.one(all)
		b, hasB := over.one(all)
		if !hasA || !hasB {
			continue
		}
		if a.recipe == b.recipe && a.quantity == b.quantity && maps.Equal(a.of, b.of) {
			why = "what it compares is one and the same here"
			continue
		}
		var above, below []float64
		for _, round := range slices.Sorted(maps.Keys(a.rounds)) {
			if v, both := b.rounds[round]; both {
				above, below = append(above, a.rounds[round]), append(below, v)
			}
		}
		e, err := stats.Pairs(below, above)
		if err != nil {
			why = err.Error()
		} else if e.N > found.N {
			found = e
		}
	}
	if found.N > 0 {
		return found, ""
	}
	if why == "" {
		why = whyNot([]choice{of, over}, runs)
	}
	return found, why
}

// nativeRatio is that of what was measured in virtual machines to the same on machines, by the comparison that has most rounds.
func nativeRatio(of choice, runs []export.Run, comparisons []apiv1.BenchmarkComparison) (found stats.Effect, why string) {
	sides := map[string]string{}
	for _, r := range runs {
		sides[r.ID] = sideOf(r)
	}
	for _, c := range comparisons {
		a, b := sides[c.A.ID], sides[c.B.ID]
		if a+b != native+virtual && a+b != virtual+native {
			continue
		}
		left := of.of(ratiosOf(c))
		if len(left) == 0 {
			why = whyNot([]choice{of}, runs)
			continue
		}
		if len(left) > 1 { // the best of them would be chosen by its ratio
			why = words.Count(len(left), "ratio") + " are what it may be of"
			continue
		}
		m := left[0]
		e := stats.Effect{N: c.A.Ended, Ratio: m.value}
		if m.interval != nil {
			e.Interval = &stats.Interval{Low: m.interval.Low, High: m.interval.High}
		}
		if a == virtual {
			e.Ratio = 1 / e.Ratio
			if e.Interval != nil {
				e.Interval = &stats.Interval{Low: 1 / m.interval.High, High: 1 / m.interval.Low}
			}
		}
		if e.N > found.N {
			found = e
		}
	}
	if found.N == 0 && why == "" {
		suite := "its suite"
		if len(runs) > 0 {
			suite = runs[0].Suite
		}
		why = "it is of virtual machines beside machines, which `muster bench compare METAL VIRTUAL --suite " + suite + "` measures"
	}
	return found, strings.TrimSpace(why)
}
