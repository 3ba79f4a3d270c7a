package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/internal/bench/recipe"
	"muster/internal/bench/stats"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
)

// What is what values must have in common to be compared over time. Image, kernel and the like are not in it: they are what may
// have changed the values.
type What struct {
	Recipe     string            `json:"recipe"`
	Version    string            `json:"version"` // of the recipe: a digest of all that it says
	Quantity   string            `json:"quantity"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Unit       string            `json:"unit"`
	Better     string            `json:"better"`
	Nodes      int               `json:"nodes,omitempty"` // that have measured it together; 0: each value is of one node
	Cores      int               `json:"cores"`           // of a node
	Class      string            `json:"class"`           // of the nodes; several are separated by commas
	Guests     bool              `json:"guests,omitempty"`
}

// ID is the same for what is the same.
func (w What) ID() string { return digest(w) }

func digest(v any) string {
	text, _ := json.Marshal(v) // maps in the order of their keys
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:10])
}

// Scope is whose values are compared: those of a cluster, of a machine in whatever cluster, or else of all of a class.
type Scope struct{ Cluster, Machine string } // ID, name

// Measured is what a run came to in one quantity.
type Measured struct {
	What
	Value    float64            // median of its rounds
	Machines map[string]float64 // by name; nil where values are not of one node each
}

// On are the nodes that a run was done on.
type On struct {
	Class  string
	Guests bool
}

// MeasuredBy is what a run has measured in all of its quantities.
func MeasuredBy(p Plan, rounds []Round, on On) (all []Measured, err error) {
	rounds = slices.Clone(rounds)
	for i, o := range rounds { // a node may be on another machine in each
		rounds[i].Steps = slices.Clone(o.Steps)
		for j, s := range o.Steps {
			s.Samples = slices.Clone(s.Samples)
			for k := range s.Samples {
				s.Samples[k].Node = o.Nodes[s.Samples[k].Node]
			}
			rounds[i].Steps[j] = s
		}
	}
	series, err := SeriesOf(p, rounds)
	if err != nil {
		return nil, err
	}
	for _, s := range series {
		m := Measured{Value: s.Summary.Median, What: What{Recipe: s.Recipe, Version: digest(p.Recipes[s.Recipe]),
			Quantity: s.Quantity, Parameters: s.Parameters, Labels: s.Labels, Unit: s.Unit, Better: s.Better,
			Nodes: p.Nodes.Nodes, Cores: p.Nodes.Cores, Class: on.Class, Guests: on.Guests}}
		if len(s.Nodes) > 0 {
			m.Nodes, m.Machines = 0, map[string]float64{}
			for _, n := range s.Nodes {
				m.Machines[n.Node] = n.Value
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// Point is a value of a trend.
type Point struct {
	Run     string
	Cluster string    // ID
	At      time.Time // when it had been measured
	Value   float64
}

// Trend is how a quantity went on in a scope.
type Trend struct {
	What
	Scope
	Series  string   // ID of What
	Points  []Point  // in their order
	Changes []Change // that were told, in their order
}

// Change says that the values of a trend have another level.
type Change struct {
	What
	Scope
	ID       string
	Project  string // of the run
	Name     string // of the run's cluster
	Run      string // the first one that had the new level
	At       time.Time
	Was      float64 // medians of both levels
	Became   float64
	Causes   []string // what else changed then, in words
	ToldAt   time.Time
	Accepted string // by whom; "": it is not
	Alone    bool   // not kept: nothing of other clusters was compared
}

// Drift is how much levels are apart that are not one.
const Drift = 0.05

// Drift is a change that was not told yet. What was told of is looked at no more: so each change is told once.
func (t Trend) Drift() (Change, bool) {
	points := t.Points
	if n := len(t.Changes); n > 0 {
		told := t.Changes[n-1].At
		points = points[slices.IndexFunc(append(points, Point{At: told}), func(p Point) bool { return !p.At.Before(told) }):]
	}
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Value
	}
	found, sure := stats.Newest(values, Drift)
	if !sure {
		return Change{}, false
	}
	first := points[found.At]
	return Change{What: t.What, Scope: t.Scope, Run: first.Run, At: first.At, Was: found.Before, Became: found.After}, true
}

// Before is the last run that had the level before a change; "": it is not known any more.
func (t Trend) Before(c Change) string {
	if i := slices.IndexFunc(t.Points, func(p Point) bool { return p.Run == c.Run }); i > 0 {
		return t.Points[i-1].Run
	}
	return ""
}

// Whose it is, in words.
func (c Change) Whose() string {
	switch {
	case c.Machine != "":
		return "machine " + c.Machine
	case c.Cluster != "":
		return "cluster " + c.Name
	}
	return "class " + c.Class
}

// Worse says that values were better before.
func (c Change) Worse() bool { return (c.Became < c.Was) == (c.Better == recipe.Higher) }

// String is a change in words: "triad is 31 % lower".
func (c Change) String() string {
	way := "higher"
	if c.Became < c.Was {
		way = "lower"
	}
	text := c.Quantity
	for _, names := range []map[string]string{c.Parameters, c.Labels} {
		for _, key := range slices.Sorted(maps.Keys(names)) {
			text += " " + key + "=" + names[key]
		}
	}
	return fmt.Sprintf("%s of %s is %s %% %s", text, c.Recipe, words.Figure(100*max(c.Became-c.Was, c.Was-c.Became)/c.Was), way)
}

// Causes is what else was another thing in a run than in the one before, in words: what its nodes said of themselves, and on
// which machines they were. With the name of a machine, only of the nodes on it.
func Causes(before, after Round, machine string) (all []string) {
	is := func(key string, values ...string) string { return key + " is " + values[1] + ", was " + values[0] }
	for _, node := range slices.Sorted(maps.Keys(after.Nodes)) {
		if machine != "" && after.Nodes[node] != machine {
			continue
		}
		if was := before.Nodes[node]; machine == "" && was != "" && was != after.Nodes[node] {
			all = append(all, node+": "+is("machine", was, after.Nodes[node]))
		}
		for key, values := range differ(before.Looks, after.Looks, node) {
			all = append(all, node+": "+is(key, values[0], values[1]))
		}
	}
	slices.Sort(all)
	for i, text := range all {
		all[i] = strings.ToValidUTF8(text[:min(len(text), mostCause)], "")
	}
	if n := len(all) - mostCauses; n > 0 {
		all = append(all[:mostCauses], fmt.Sprintf("and %d more", n))
	}
	return all
}

// How many causes of a change are told, and how many bytes of each.
const (
	mostCauses = 20
	mostCause  = 300
)

// differ are the facts of a node that are other ones, but for those that always are.
func differ(before, after Looks, node string) map[string][2]string {
	found := map[string][2]string{}
	for key, value := range after.Before[node] {
		_, changes := after.After[node][key]
		if was, known := before.Before[node][key]; known && !changes && was != value {
			found[key] = [2]string{was, value}
		}
	}
	return found
}

// Sentence says what has changed in a scope.
func Sentence(changes []Change) string {
	texts := lists.Map(changes, func(c Change) string { return c.String() })
	text := words.Few(texts) + " since " + changes[0].At.UTC().Format(time.DateTime) + " (run " + changes[0].Run + ")"
	if causes := changes[0].Causes; len(causes) > 0 {
		text += "; what else changed then: " + strings.Join(causes[:min(len(causes), 5)], "; ")
	}
	return text
}
