// Package price has amounts of money, and counts what clusters use and what that costs. It is pure.
//
// What enters: rows of the meter, each a stretch of time that a node (or a cluster's /home) spent in one
// state, with the price at that time. What leaves: costs, and the lines of statements.
//
// Rounding: time is counted in whole milliseconds, money in whole millionths of the currency's unit. A line is multiplied
// out exactly and rounded once, half up; totals are sums of lines as they are printed. What a budget is compared with is
// multiplied out exactly as well and rounded once for each price.
package price

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"muster/internal/kit/lists"
)

// Kind is what a row counts.
type Kind string

// A node; the /home of a cluster.
const (
	Node Kind = "node"
	Home Kind = "home"
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Node, Home} }

// State is what a node is doing, as far as money goes.
type State string

// States of a node, and the one of a /home.
const (
	Preparing State = "preparing" // from its reservation until it has passed its tests
	Ready     State = "ready"
	Draining  State = "draining" // its last jobs run
	Failed    State = "failed"   // until it is removed
	Releasing State = "releasing"
	Stored    State = "stored"
)

// Terms are what something costs and in which states: as they stood when it came, or when the site changed its prices.
type Terms struct {
	Rate    Amount // of a node per hour, of a /home per GiB and month
	Charged []State
	Cores   int
	CPUs    int // 0: not known
	GPUs    int
}

// Usage is a row of the meter: a stretch of time in one state.
type Usage struct {
	Subject   string // ID of the node, or of the cluster whose /home it is
	Kind      Kind
	Project   string
	ClusterID string
	Cluster   string
	Node      string // "" for a /home
	Queue     string // "" for the head and for a /home
	Class     string
	Machine   string
	State     State
	Quantity  int64 // 1 for a node; MiB of a /home
	Terms
	From time.Time
	To   time.Time // zero while it goes on
}

// Costs says that the row's time is charged, be it at a price of nothing.
func (r Usage) Costs() bool { return slices.Contains(r.Charged, r.State) }

// Within cuts the row to a window; false if nothing of it is inside.
func (r Usage) Within(from, to time.Time) (Usage, bool) {
	if r.To.IsZero() || r.To.After(to) {
		r.To = to
	}
	if r.From.Before(from) {
		r.From = from
	}
	return r, r.To.After(r.From)
}

// ms is how long the row lasted; it must have an end.
func (r Usage) ms() int64 { return r.To.Sub(r.From).Milliseconds() }

// The units of prices, in quantities times milliseconds. A month is a twelfth of 365 days, so that no month is cheaper
// than another.
const (
	hour     = 3_600_000
	month    = 730 * hour
	gibMonth = 1024 * month
)

// cost is the price of units (quantity times milliseconds) at a rate in micros, rounded half up.
func cost(kind Kind, micros, units int64) int64 {
	if micros <= 0 || units <= 0 {
		return 0
	}
	per := uint64(hour)
	if kind == Home {
		per = gibMonth
	}
	high, low := bits.Mul64(uint64(micros), uint64(units))
	low, carry := bits.Add64(low, per/2, 0)
	high += carry
	if high >= per {
		return math.MaxInt64 // more money than there is
	}
	quotient, _ := bits.Div64(high, low, per)
	return int64(min(quotient, math.MaxInt64))
}

// Sum is an amount of money in each currency; a site that has changed its currency has rows in both.
type Sum map[string]int64

// Add adds a price; one of nothing leaves no trace.
func (s Sum) Add(p Amount) {
	if p.Currency != "" {
		s[p.Currency] += p.Micros
	}
}

// Of is the part in one currency.
func (s Sum) Of(currency string) Amount {
	return Amount{Micros: s[currency], Currency: currency}
}

// String is "12.50 EUR", or with several currencies "12.50 EUR + 3.00 USD"; "" where nothing has a price.
func (s Sum) String() string {
	parts := lists.Map(slices.Sorted(maps.Keys(s)), func(currency string) string { return s.Of(currency).String() })
	return strings.Join(parts, " + ")
}

// Spending is what was charged up to a moment, in as many groups as there were prices.
type Spending []Group

// Group is the charged time at one price.
type Group struct {
	Kind    Kind
	Rate    Amount
	Units   int64 // quantities times milliseconds
	Running int64 // quantity that is charged now
}

// Cost is all of it.
func (s Spending) Cost() Sum {
	sum := Sum{}
	for _, g := range s {
		sum.Add(Amount{Micros: cost(g.Kind, g.Rate.Micros, g.Units), Currency: g.Rate.Currency})
	}
	return sum
}

// PerHour is what comes on top in an hour if nothing changes.
func (s Spending) PerHour() Sum {
	sum := Sum{}
	for _, g := range s {
		sum.Add(Amount{Micros: cost(g.Kind, g.Rate.Micros, g.Running*hour), Currency: g.Rate.Currency})
	}
	return sum
}

// StopNodes takes away what is charged now of nodes in part, which is a part of it.
func (s Spending) StopNodes(part Spending) {
	for _, g := range part {
		i := slices.IndexFunc(s, func(all Group) bool { return all.Kind == g.Kind && all.Rate == g.Rate })
		if g.Kind == Node && i >= 0 {
			s[i].Running -= g.Running
		}
	}
}

// NodeTime is the time of all nodes together, and how many count now.
func (s Spending) NodeTime() (time.Duration, int64) {
	var ms, running int64
	for _, g := range s {
		if g.Kind == Node {
			ms, running = ms+g.Units, running+g.Running
		}
	}
	return time.Duration(ms) * time.Millisecond, running
}

// Month is the calendar month, in UTC, that t is in: from its first instant to that of the next.
func Month(t time.Time) (from, to time.Time) {
	t = t.UTC()
	from = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(0, 1, 0)
}
