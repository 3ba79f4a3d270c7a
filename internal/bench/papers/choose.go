package papers

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
)

// choice says which of the things that a run has measured is meant: "hpcc hpl nodes=1 NB=128". least and most are values of a
// key, too. Of several that are left, the best is meant.
type choice struct {
	recipe, quantity string
	where            [][2]string
	best             string // not its value is meant, but its number of this key
	per              string // "core": its value for each core; "dgemm": a percentage of what the cores multiply alone
	side             string // "native" or "virtual": of such nodes alone
}

// The two sides.
const (
	native  = "native"
	virtual = "virtual"
)

func parse(text string) (c choice, err error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return c, fmt.Errorf("%q has no recipe and quantity", text)
	}
	c.recipe, c.quantity = words[0], words[1]
	for _, word := range words[2:] {
		key, value, found := strings.Cut(word, "=")
		switch {
		case !found || value == "":
			return c, fmt.Errorf("%q in %q is no KEY=VALUE", word, text)
		case key == "best":
			c.best = value
		case key == "per":
			c.per = value
		case key == "side":
			c.side = value
		default:
			c.where = append(c.where, [2]string{key, value})
		}
	}
	return c, nil
}

// measured is a quantity of a run, or of a comparison.
type measured struct {
	recipe, quantity, unit string
	higher                 bool // is better
	of                     map[string]string
	value                  float64
	interval               *apiv1.Interval
	rounds                 map[int]float64
}

// keys are the parameters and labels that a quantity is chosen by; it is of all nodes where they do not say of how many.
func keys(on apiv1.BenchmarkNodes, parameters, labels map[string]string) map[string]string {
	all := map[string]string{"nodes": strconv.Itoa(on.Nodes)}
	maps.Copy(all, parameters)
	maps.Copy(all, labels)
	if n, err := strconv.Atoi(all["nodes"]); err == nil {
		all["cores"] = strconv.Itoa(n * on.Cores)
	}
	return all
}

func measuredBy(r export.Run) (all []measured) {
	for _, s := range r.Series {
		m := measured{s.Recipe, s.Quantity, s.Unit, s.Better == "higher", keys(r.On, s.Parameters, s.Labels), s.Median,
			s.Interval, map[int]float64{}}
		for _, v := range s.Rounds {
			m.rounds[v.Round] = v.Value
		}
		all = append(all, m)
	}
	return all
}

// ratiosOf are the ratios of a comparison's quantities.
func ratiosOf(c apiv1.BenchmarkComparison) (all []measured) {
	for _, q := range c.Quantities {
		if q.N > 0 && q.Ratio > 0 {
			of := keys(c.A.On, q.Parameters, q.Labels)
			all = append(all, measured{q.Recipe, q.Quantity, "", true, of, q.Ratio, q.Interval, nil})
		}
	}
	return all
}

// of are those that a choice leaves.
func (c choice) of(all []measured) []measured {
	left := slices.DeleteFunc(slices.Clone(all), func(m measured) bool {
		return m.recipe != c.recipe || m.quantity != c.quantity
	})
	for _, w := range c.where {
		want := w[1]
		if numbers := numbersOf(left, w[0]); len(numbers) > 0 && (want == "least" || want == "most") {
			extreme := map[string]float64{"least": slices.Min(numbers), "most": slices.Max(numbers)}
			want = strconv.FormatFloat(extreme[want], 'f', -1, 64)
		}
		left = slices.DeleteFunc(left, func(m measured) bool { return m.of[w[0]] != want })
	}
	if c.per == "" {
		return left
	}
	var each []measured
	for _, m := range left {
		if by := c.divisor(m, all); by > 0 {
			m = m.over(by)
			if c.per != "core" {
				m.unit = "%"
			}
			each = append(each, m)
		}
	}
	return each
}

// divisor is what a value is divided by; 0: that was not measured.
func (c choice) divisor(m measured, all []measured) float64 {
	cores, _ := strconv.ParseFloat(m.of["cores"], 64)
	if c.per == "core" {
		return cores
	}
	alone, found := best(choice{recipe: "dgemm", quantity: "dgemm", where: [][2]string{{"nodes", m.of["nodes"]}}}.of(all))
	if !found {
		return 0
	}
	return alone.value * cores / 100
}

// over is what is measured as a part of something.
func (m measured) over(by float64) measured {
	m.value /= by
	if m.interval != nil {
		m.interval = &apiv1.Interval{Low: m.interval.Low / by, High: m.interval.High / by}
	}
	m.rounds = maps.Clone(m.rounds)
	for round := range m.rounds {
		m.rounds[round] /= by
	}
	return m
}

// numbersOf are the numbers that things have of a key.
func numbersOf(all []measured, key string) (numbers []float64) {
	for _, m := range all {
		if v, err := strconv.ParseFloat(m.of[key], 64); err == nil {
			numbers = append(numbers, v)
		}
	}
	return numbers
}

// best is the best of things of one quantity.
func best(all []measured) (measured, bool) {
	if len(all) == 0 {
		return measured{}, false
	}
	return slices.MaxFunc(all, func(a, b measured) int {
		switch better := a.value > b.value == a.higher; {
		case a.value == b.value:
			return 0
		case better:
			return 1
		}
		return -1
	}), true
}

// one is the thing that a choice means.
func (c choice) one(all []measured) (measured, bool) {
	m, found := best(c.of(all))
	if !found || c.best == "" {
		return m, found
	}
	v, err := strconv.ParseFloat(m.of[c.best], 64)
	return measured{value: v, of: m.of}, err == nil
}

// sideOf says what the nodes of a run are; "": they differ, or have not said it.
func sideOf(r export.Run) string {
	side := ""
	for _, o := range r.History {
		for _, said := range o.Before {
			is := native
			if said["platform"] == "" && said["virtualization"] == "" {
				continue
			}
			if said["platform"] == "virtual machine" || said["virtualization"] != "" {
				is = virtual
			}
			if side != "" && side != is {
				return ""
			}
			side = is
		}
	}
	return side
}
