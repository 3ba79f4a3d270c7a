package price

import (
	"fmt"
	"math/bits"
	"time"
)

// Limit is a budget, or a quota of node-hours, with what is used of it. Time uses both up, so they are watched.
type Limit struct {
	Hours   bool   // it is of node-hours, and no amount
	What    string // "budget", "budget for 2026-11", "node-hours of 2026-11"
	Used    string // "412.50 EUR", "96.4 h"
	Limit   string // "500.00 EUR", "100 h"
	Percent int    // used; 100 when it is reached
	Left    time.Duration
	Runs    bool // it is being used: Left says for how long it lasts at this rate
	Pauses  bool // clusters pause when it is reached
}

// Reached says that nothing is left.
func (l Limit) Reached() bool { return l.Percent >= 100 }

// String is "412.50 EUR of 500.00 EUR (82 %)".
func (l Limit) String() string { return fmt.Sprintf("%s of %s (%d %%)", l.Used, l.Limit, l.Percent) }

// BudgetLimit is an amount that may be spent.
func BudgetLimit(what string, limit Amount, spent Spending, pauses bool) Limit {
	used, rate := spent.Cost()[limit.Currency], spent.PerHour()[limit.Currency]
	l := Limit{What: what, Used: Amount{Micros: used, Currency: limit.Currency}.String(),
		Limit: limit.String(), Percent: percent(used, limit.Micros), Pauses: pauses}
	if l.Runs = rate > 0; l.Runs {
		l.Left = Lasting(limit.Micros-used, rate)
	}
	return l
}

// NodeHourLimit is a number of node-hours that may be used.
func NodeHourLimit(what string, hours int, spent Spending) Limit {
	used, running := spent.NodeTime()
	limit := time.Duration(hours) * time.Hour
	l := Limit{Hours: true, What: what, Used: fmt.Sprintf("%.2f h", used.Hours()), Limit: fmt.Sprintf("%d h", hours),
		Percent: percent(int64(used), int64(limit)), Pauses: true}
	if l.Runs = running > 0; l.Runs {
		l.Left = max(limit-used, 0) / time.Duration(running)
	}
	return l
}

// percent is how much of a limit is used, rounded down so that 100 is all of it.
func percent(used, limit int64) int {
	if limit <= 0 {
		return 100
	}
	if used <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(used), 100)
	if high >= uint64(limit) {
		return 1 << 30
	}
	whole, _ := bits.Div64(high, low, uint64(limit))
	return int(min(whole, 1<<30))
}

// Lasting is how long it takes to spend what is left, both in millionths of a currency; 0 if it is spent.
func Lasting(left, perHour int64) time.Duration {
	hours := float64(max(left, 0)) / float64(perHour)
	return time.Duration(min(hours, 1e6) * float64(time.Hour))
}
