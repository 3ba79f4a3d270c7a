package stats

import "math"

// Verdict is what a comparison comes to.
type Verdict string

// The four verdicts.
const (
	Differs      Verdict = "differs"
	Equal        Verdict = "equal"          // within a margin
	Undecided    Verdict = "not decided"    // more values may decide it
	Incomparable Verdict = "not comparable" // what was measured is not the same on both sides
)

// Margin is by how much of A a side may be off and yet be equal, unless another margin is given.
const Margin = 0.02

// Verdict judges an effect. Sides are equal where the whole interval lies within the margin, whether or not they differ in it: so
// small a difference does not matter to the person who chose the margin. They differ where the test and the interval say so.
func (e Effect) Verdict(margin float64) Verdict {
	switch {
	case e.Interval == nil:
		return Undecided
	case e.Interval.Within(Interval{1 - margin, 1 + margin}):
		return Equal
	case e.P < alpha && !e.Interval.Contains(1):
		return Differs
	}
	return Undecided
}

// Precise says that the ratio is known well enough: its interval reaches no further than a part of it, half, to either side. To
// measure until this is so is fair; to measure until sides differ is not, since by chance they will.
func (e Effect) Precise(half float64) bool {
	return e.Interval != nil && math.Max(e.Interval.High/e.Ratio, e.Ratio/e.Interval.Low) <= 1+half
}
