package bench

import (
	"cmp"
	"maps"
	"slices"

	"muster/internal/bench/recipe"
	"muster/internal/bench/stats"
)

// Series is one quantity of one step, with what divides it, over all rounds of a run.
type Series struct {
	Step       int // its number in the plan's steps
	Recipe     string
	Quantity   string
	Parameters map[string]string // of the step
	Labels     map[string]string // read beside the values
	Unit       string
	Better     string
	Values     []RoundValue // of each round that counts, in their order
	Nodes      []NodeValue  // where the values say on which node they were measured: the slowest first
	Summary    stats.Summary
}

// RoundValue is what a round has measured: the median of its samples. What is repeated within one job says how that job was; only
// rounds say how the cluster is.
type RoundValue struct {
	Round   int
	Value   float64
	Samples int
}

// NodeValue is the median of all samples of one node.
type NodeValue struct {
	Node    string
	Value   float64
	Samples int
}

// SeriesOf are all series of a run, in the order of its steps: of samples of steps that are ok, in rounds that are not broken.
func SeriesOf(p Plan, rounds []Round) ([]Series, error) {
	steps, err := p.Steps()
	if err != nil {
		return nil, err
	}
	type key struct {
		step int
		name string
	}
	type group struct {
		Series
		byNode  map[string][]float64
		byRound map[int][]float64
	}
	all := map[key]*group{}
	var order []*group // as they were seen first, which is how programs print them
	for _, r := range rounds {
		if r.Broken() {
			continue
		}
		for _, s := range r.Steps {
			if s.State != StepOK || s.Number >= len(steps) {
				continue
			}
			for _, v := range s.Samples {
				of := steps[s.Number]
				at := key{s.Number, of.Series(v)}
				g := all[at]
				if g == nil {
					g = &group{byNode: map[string][]float64{}, byRound: map[int][]float64{}, Series: Series{
						Step: s.Number, Recipe: of.Recipe.Name, Quantity: v.Quantity, Parameters: of.Parameters, Labels: v.Labels,
						Unit: v.Unit, Better: v.Better}}
					all[at], order = g, append(order, g)
				}
				g.byRound[r.Number] = append(g.byRound[r.Number], v.Value)
				if v.Node != "" {
					g.byNode[v.Node] = append(g.byNode[v.Node], v.Value)
				}
			}
		}
	}
	var found []Series
	slices.SortStableFunc(order, func(a, b *group) int { return cmp.Compare(a.Step, b.Step) })
	for _, g := range order {
		var medians []float64
		for _, number := range slices.Sorted(maps.Keys(g.byRound)) {
			one := stats.Summarise(g.byRound[number])
			g.Values = append(g.Values, RoundValue{number, one.Median, one.N})
			medians = append(medians, one.Median)
		}
		for node, values := range g.byNode {
			one := stats.Summarise(values)
			g.Nodes = append(g.Nodes, NodeValue{node, one.Median, one.N})
		}
		slices.SortFunc(g.Nodes, func(a, b NodeValue) int {
			slower := cmp.Compare(a.Value, b.Value)
			if g.Better == recipe.Lower {
				slower = -slower
			}
			return cmp.Or(slower, cmp.Compare(a.Node, b.Node))
		})
		g.Summary = stats.Summarise(medians)
		found = append(found, g.Series)
	}
	return found, nil
}
