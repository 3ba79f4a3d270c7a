// Package acceptance judges what a node measured by what its like have measured before it.
//
// What enters: the tests of one boot, the passes of the same class, the site's settings. What leaves: whether the node is
// slow, and in what. It is pure. Why these statistics: docs/decisions/failures.md.
package acceptance

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
	"muster/internal/protocol"
)

// Tries is how often a slow node is measured; the best counts.
const Tries = 3

// Remembered is how many of the newest passes of a class make its median.
const Remembered = 100

// Kind is what there is to know of a quantity.
type Kind struct {
	Quantity protocol.Quantity
	Name     string // in words
	Unit     string
	Lower    bool // is better
	Network  bool
}

// Kinds are all that is measured, in the order of a table.
func Kinds() []Kind {
	return []Kind{
		{Quantity: protocol.MemoryBandwidth, Name: "memory bandwidth", Unit: "GB/s"},
		{Quantity: protocol.ComputeRate, Name: "compute", Unit: "kSHA/s"},
		{Quantity: protocol.HeadRoundTrip, Name: "round trip to the head", Unit: "µs", Lower: true, Network: true},
		{Quantity: protocol.HeadThroughput, Name: "throughput to the head", Unit: "MB/s", Network: true},
		{Quantity: protocol.NeighbourRoundTrip, Name: "round trip to a neighbour", Unit: "µs", Lower: true, Network: true},
		{Quantity: protocol.NeighbourThroughput, Name: "throughput to a neighbour", Unit: "MB/s", Network: true},
	}
}

// Standing is one quantity of a node beside its like.
type Standing struct {
	Kind
	Value  float64 // the best that the node measured; 0: not measured
	Median float64 // of its like; 0: none of them measured it
	Of     int     // how many have
	Slow   bool
}

// String says it in a user's words: "memory bandwidth 5.1 GB/s; its class has 11.3 (median of 40 passes)".
func (s Standing) String() string {
	return fmt.Sprintf("%s %s %s; its class has %s (median of %d passes)", s.Name, Round(s.Value), s.Unit, Round(s.Median), s.Of)
}

// Judge compares the best of the tests of one boot with the passes of its like.
func Judge(settings inventory.Acceptance, tests, passes []protocol.TestResult) []Standing {
	var all []Standing
	for _, kind := range Kinds() {
		mine, theirs := kind.values(tests), kind.values(passes)
		s := Standing{Kind: kind, Value: kind.best(mine), Of: len(theirs), Median: median(theirs)}
		s.Slow = len(mine) > 0 && len(theirs) >= settings.Passes && kind.behind(s.Value, theirs, settings)
		all = append(all, s)
	}
	return all
}

// Slow says in what a node is slow; "" if it is not.
func Slow(standings []Standing) string {
	slow := lists.Filter(standings, func(s Standing) bool { return s.Slow })
	return strings.Join(lists.Map(slow, Standing.String), "; ")
}

// values are those that were measured of a kind.
func (k Kind) values(tests []protocol.TestResult) []float64 {
	var values []float64
	for _, test := range tests {
		for _, m := range test.Measures {
			if m.Quantity == k.Quantity && m.Value > 0 && !math.IsInf(m.Value, 0) {
				values = append(values, m.Value)
			}
		}
	}
	return values
}

func (k Kind) best(values []float64) float64 {
	switch {
	case len(values) == 0:
		return 0
	case k.Lower:
		return slices.Min(values)
	}
	return slices.Max(values)
}

// behind says that a value is worse than its like by both bounds: by so many robust deviations, which a noisy quantity
// widens, and by a share of the median, without which a quantity that never varies would allow nothing.
func (k Kind) behind(value float64, others []float64, settings inventory.Acceptance) bool {
	share := settings.Share
	if k.Network {
		share = settings.NetworkShare
	}
	middle, spread := median(others), settings.Deviations*deviation(others)
	if k.Lower {
		return value > middle/share && value > middle+spread
	}
	return value < middle*share && value < middle-spread
}

// median is the middle of the values; 0 if there are none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// deviation is the median of the distances from the median, scaled so that it is the standard deviation where values are
// distributed normally. A few values that are far away do not move it.
func deviation(values []float64) float64 {
	const normal = 1.4826
	middle := median(values)
	return normal * median(lists.Map(values, func(v float64) float64 { return math.Abs(v - middle) }))
}

// Round writes a value with three digits that count: 11.3, 0.52, 941.
func Round(value float64) string {
	decimals := 0
	switch {
	case value == 0:
		return "-"
	case value < 1:
		decimals = 3
	case value < 10:
		decimals = 2
	case value < 100:
		decimals = 1
	}
	return fmt.Sprintf("%.*f", decimals, value)
}

// Summary is what a test came to, in a line: "memory bandwidth 11.2 GB/s, compute 812 kSHA/s".
func Summary(test protocol.TestResult) string {
	var texts []string
	for _, kind := range Kinds() {
		for _, m := range test.Measures {
			if m.Quantity == kind.Quantity && m.Value > 0 {
				texts = append(texts, fmt.Sprintf("%s %s %s", kind.Name, Round(m.Value), kind.Unit))
			}
		}
	}
	return strings.Join(texts, ", ")
}
