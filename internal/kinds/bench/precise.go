package bench

import (
	"math"

	"muster/internal/bench/stats"
)

// Precise says that intervals reach no further than a part of what they are of: those of all medians of a run, or, of two that
// take turns, those of all ratios. Values never decide when a run ends, but how far apart they are: a person who measures until a
// test sees a difference will see one where there is none.
func Precise(one Side, other *Side, part float64) (bool, error) {
	var intervals []*stats.Interval
	if other != nil {
		c, err := Compare(one, *other, stats.Margin)
		if err != nil {
			return false, err
		}
		for _, q := range c.Quantities {
			if q.Verdict != stats.Incomparable {
				intervals = append(intervals, q.Effect.Interval)
			}
		}
	} else {
		series, err := SeriesOf(one.Run.Plan, one.Rounds)
		if err != nil {
			return false, err
		}
		for _, s := range series {
			intervals = append(intervals, s.Summary.Interval)
		}
	}
	for _, i := range intervals {
		if i == nil || i.Low <= 0 || math.Sqrt(i.High/i.Low)-1 > part {
			return false, nil
		}
	}
	return len(intervals) > 0, nil
}
