package export

import (
	"maps"
	"slices"

	apiv1 "muster/api/v1"
	"muster/internal/kit/words"
)

// Names are how quantities of runs are called: with the parameters that tell apart those of one recipe, by which they are kept.
type Names map[string][]map[string]string

// Add makes a quantity known.
func (n Names) Add(recipe, quantity string, parameters map[string]string) {
	n[recipe+" "+quantity] = append(n[recipe+" "+quantity], parameters)
}

// Of is what a quantity that is known is called.
func (n Names) Of(recipe, quantity string, parameters, labels map[string]string) string {
	text := quantity
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		other := func(o map[string]string) bool { return o[key] != parameters[key] }
		if slices.ContainsFunc(n[recipe+" "+quantity], other) {
			text += " " + key + "=" + parameters[key]
		}
	}
	return text + Labelled(labels)
}

// NamesOf are those of a run's quantities.
func NamesOf(all []apiv1.BenchmarkSeries) Names {
	n := Names{}
	for _, s := range all {
		n.Add(s.Recipe, s.Quantity, s.Parameters)
	}
	return n
}

// NamesCompared are those of a comparison's quantities.
func NamesCompared(all []apiv1.ComparedQuantity) Names {
	n := Names{}
	for _, q := range all {
		n.Add(q.Recipe, q.Quantity, q.Parameters)
	}
	return n
}

// Labelled are names with values, to stand after a quantity.
func Labelled(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	return " " + joined(labels, " ")
}

// Fact is what nodes said of themselves that does not change.
type Fact struct {
	Key    string
	Values []Said // in their order
	nodes  int    // that were looked at
}

// Said is a value, and the nodes that said it, as in cluster:node.
type Said struct {
	Value string
	Nodes []string
}

// Whose it is, in words, where nodes differ; "": all say it.
func (s Said) Whose(of Fact) string {
	if len(s.Nodes) == of.nodes {
		return ""
	}
	return words.Few(s.Nodes)
}

// Facts are those of all nodes of some runs, in the order of their keys. Rounds whose nodes were not looked at twice do not tell
// what changes, and are left out.
func Facts(runs ...Run) (all []Fact) {
	said := map[string]map[string]map[string]bool{} // by key and value: who
	nodes := map[string]bool{}
	for _, r := range runs {
		for _, o := range r.History {
			for node, after := range o.After {
				nodes[r.Cluster+":"+node] = true
				for key, value := range o.Before[node] {
					if _, changes := after[key]; changes {
						continue
					}
					if said[key] == nil {
						said[key] = map[string]map[string]bool{}
					}
					if said[key][value] == nil {
						said[key][value] = map[string]bool{}
					}
					said[key][value][r.Cluster+":"+node] = true
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		f := Fact{Key: key, nodes: len(nodes)}
		for _, value := range slices.Sorted(maps.Keys(said[key])) {
			f.Values = append(f.Values, Said{value, slices.Sorted(maps.Keys(said[key][value]))})
		}
		all = append(all, f)
	}
	return all
}
