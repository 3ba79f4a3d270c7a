package bench

import (
	"slices"

	"muster/internal/bench/recipe"
	"muster/internal/bench/stats"
)

// Side is a run in a comparison.
type Side struct {
	Run    Run
	Rounds []Round
}

// Compared is one quantity on both sides.
type Compared struct {
	Series          // what it is; values and summary are those of side A
	B        Series // of side B; without values where that has none
	Effect   stats.Effect
	Adjusted float64 // the p-value, as one of all that are compared here
	Verdict  stats.Verdict
	Better   string // "a" or "b": the side whose values are better, if they differ
	Why      string // why it is not comparable
	Pairs    []Pair // where sides were measured in turns
}

// Pair is what both sides have measured in the same round.
type Pair struct {
	Round int
	A, B  float64
}

// Comparison is one run beside another.
type Comparison struct {
	Paired     bool
	Quantities []Compared
	// Failed are the steps of each side that are neither ok nor skipped, of all that ran, and the chance of so large a difference
	// where sides fail alike (Fisher's exact test).
	FailedA, OfA, FailedB, OfB int
	FailedP                    float64
}

// Compare compares two runs quantity by quantity: in pairs where their rounds were done in turns. A margin is by how much of A
// side B may be off and still be equal.
func Compare(a, b Side, margin float64) (Comparison, error) {
	c := Comparison{Paired: a.Run.Peer == b.Run.ID && b.Run.Peer == a.Run.ID}
	if c.Paired { // a pair counts if both of its rounds do
		set := map[int]bool{}
		for _, r := range slices.Concat(a.Rounds, b.Rounds) {
			set[r.Number] = set[r.Number] || r.Broken()
		}
		aside := func(r Round) bool { return set[r.Number] }
		a.Rounds = slices.DeleteFunc(slices.Clone(a.Rounds), aside)
		b.Rounds = slices.DeleteFunc(slices.Clone(b.Rounds), aside)
	}
	c.FailedA, c.OfA = failures(a.Rounds)
	c.FailedB, c.OfB = failures(b.Rounds)
	c.FailedP = stats.Fisher(c.FailedA, c.OfA, c.FailedB, c.OfB)
	of, err := SeriesOf(a.Run.Plan, a.Rounds)
	if err != nil {
		return c, err
	}
	others, err := SeriesOf(b.Run.Plan, b.Rounds)
	if err != nil {
		return c, err
	}
	alike := map[string][]int{} // of others, by what they are
	for i, s := range others {
		alike[s.what()] = append(alike[s.what()], i)
	}
	taken := make([]bool, len(others))
	for _, s := range of {
		one := Compared{Series: s, Verdict: stats.Incomparable}
		if left := alike[s.what()]; len(left) > 0 {
			one.B, taken[left[0]], alike[s.what()] = others[left[0]], true, left[1:]
			one.judge(c.Paired, margin)
		} else {
			one.Why = "side B has not measured it"
		}
		c.Quantities = append(c.Quantities, one)
	}
	for i, s := range others {
		if taken[i] {
			continue
		}
		nothing := s
		nothing.Values, nothing.Nodes, nothing.Summary = nil, nil, stats.Summary{}
		c.Quantities = append(c.Quantities, Compared{Series: nothing, B: s, Verdict: stats.Incomparable,
			Why: "side A has not measured it"})
	}
	c.adjust()
	return c, nil
}

// what is the same for series whose values are of one quantity, measured in the same way.
func (s Series) what() string {
	return What{Recipe: s.Recipe, Quantity: s.Quantity, Parameters: s.Parameters, Labels: s.Labels, Unit: s.Unit,
		Better: s.Better}.ID()
}

func failures(rounds []Round) (failed, of int) {
	for _, r := range rounds {
		for _, s := range r.Steps {
			if r.Broken() || s.State == StepSkipped {
				continue
			}
			if of++; s.State != StepOK {
				failed++
			}
		}
	}
	return failed, of
}

func (c *Compared) judge(paired bool, margin float64) {
	values := func(s Series) (all []float64) {
		for _, v := range s.Values {
			all = append(all, v.Value)
		}
		return all
	}
	a, b := values(c.Series), values(c.B)
	compare := stats.Groups
	if paired {
		compare, a, b = stats.Pairs, nil, nil
		byRound := map[int]float64{}
		for _, v := range c.B.Values {
			byRound[v.Round] = v.Value
		}
		for _, v := range c.Values {
			if other, both := byRound[v.Round]; both {
				c.Pairs = append(c.Pairs, Pair{v.Round, v.Value, other})
				a, b = append(a, v.Value), append(b, other)
			}
		}
	}
	var err error
	if c.Effect, err = compare(a, b); err != nil {
		c.Why = err.Error()
		return
	}
	if c.Verdict = c.Effect.Verdict(margin); c.Verdict == stats.Differs {
		c.Better = "a"
		if (c.Effect.Ratio > 1) == (c.Series.Better == recipe.Higher) {
			c.Better = "b"
		}
	}
}

// adjust corrects the p-values of all that was compared, and takes back verdicts that only one comparison would allow.
func (c *Comparison) adjust() {
	var p []float64
	var of []*Compared
	for i := range c.Quantities {
		if q := &c.Quantities[i]; q.Verdict != stats.Incomparable {
			p, of = append(p, q.Effect.P), append(of, q)
		}
	}
	for i, adjusted := range stats.Adjust(p) {
		if of[i].Adjusted = adjusted; of[i].Verdict == stats.Differs && adjusted >= 1-stats.Confidence {
			of[i].Verdict, of[i].Better = stats.Undecided, ""
		}
	}
}
