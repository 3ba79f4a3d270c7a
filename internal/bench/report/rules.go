package report

import (
	"fmt"

	"muster/internal/kit/words"
)

// tally is what there is of what the rules are about.
type tally struct {
	quantities, few       int // of runs; those of too few values for an interval
	rounds, broken        int
	comparisons, unpaired int
	facts, papers         int
}

func (r Report) tally(facts int) tally {
	t := tally{comparisons: len(r.Comparisons), facts: facts, papers: len(r.Papers)}
	for _, one := range r.Runs {
		t.quantities, t.rounds, t.broken = t.quantities+len(one.Series), t.rounds+one.Ended, t.broken+one.Broken
		for _, s := range one.Series {
			if s.Interval == nil {
				t.few++
			}
		}
	}
	for _, c := range r.Comparisons {
		if !c.Paired {
			t.unpaired++
		}
	}
	return t
}

// rules are the twelve of Hoefler and Belli, Scientific Benchmarking of Parallel Computing Systems, SC'15, and whether this
// report keeps them.
func (t tally) rules() [][2]string {
	base, test := "kept: ratios are B to A, and the medians of both stand beside them", "kept: see the method"
	switch {
	case t.comparisons == 0 && t.papers == 0:
		base = "nothing is compared"
	case t.comparisons == 0:
		base = "kept: what papers have published stands beside what was measured"
	}
	switch {
	case t.comparisons == 0:
		test = "nothing is compared by a test"
	case t.unpaired > 0:
		test = fmt.Sprintf("kept in part: the sides of %d of %s were not measured in turns, so what has changed between them counts, too",
			t.unpaired, words.Count(t.comparisons, "comparison"))
	}
	chosen := fmt.Sprintf("kept: the %d quantities of the suites are all shown, and all samples are in the data", t.quantities)
	if t.broken > 0 {
		chosen += fmt.Sprintf("; %d of %s do not count, and are listed with the reason", t.broken, words.Count(t.rounds, "round"))
	}
	varies := "kept: each value has its interval"
	switch {
	case t.quantities == 0:
		varies = "nothing was measured"
	case t.few == t.quantities:
		varies = "not kept: no quantity has the six values that an interval needs; smallest and largest values are shown"
	case t.few > 0:
		varies = fmt.Sprintf("kept in part: %d of %d quantities have fewer than the six values that an interval needs", t.few, t.quantities)
	}
	factors := fmt.Sprintf("kept as far as nodes say them: %s; what could not be read in a node is missing there",
		words.Count(t.facts, "fact"))
	if t.facts == 0 {
		factors = "not kept: nodes have said nothing of themselves"
	}
	bound := "not kept: none is known; a report with --papers has those that nodes' clock, links and memory give"
	if t.papers > 0 {
		bound = "kept beside papers, as far as nodes have said their clock, their links and their memory"
	}
	return [][2]string{
		{"A speed-up has its base", base},
		{"A selection is justified", chosen},
		{"Each kind of value has its mean", "kept: no means are used"},
		{"Ratios are not averaged", "kept: none is"},
		{"Variation is told", varies},
		{"Nothing is taken for normal", "kept: no test or interval assumes a distribution"},
		{"Comparisons are by a sound test", test},
		{"Tails are shown where they matter", "kept: smallest and largest values are shown; each round is a dot"},
		{"All factors are documented", factors},
		{"Time in parallel is defined", "kept: as the recipe and its program say; collectives are timed by the slowest rank"},
		{"There is an upper bound", bound},
		{"Figures show all, and lines only what lies between", "kept: lines join values of neighbouring sizes only"},
	}
}
