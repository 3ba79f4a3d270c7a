// Package calendar says when machines are free: pure functions over who holds machines until when, and who wants how many of a
// class from when on. No I/O, the same answer for the same question.
//
// What enters: machines with the end of their holders' leases, and bookings: reservations that are to come, and nodes that
// running clusters lack. What leaves: whether one more booking fits, when the first time is that it does, how long a cluster
// may go on, and a table of what is free when.
//
// Nothing is kept: the calendar is computed from rows whenever it is asked for. It never promises what cannot be, since it
// finds machines for every booking for the whole of its time: see schedule.go.
package calendar

import (
	"slices"
	"sort"
	"time"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// Machine is one that is in service.
type Machine struct {
	inventory.Machine
	By    string    // who holds it; "" if it can be had now
	Until time.Time // when its tenant will have left it and it is fit for the next; zero: not foreseen
}

// Booking is a number of machines wanted for a time.
type Booking struct {
	By    string // who; machines with the same By are the same cluster's
	From  time.Time
	Until time.Time // zero: without end
	Wants []Want
}

// Want is a number of nodes that may be of any of some classes.
type Want struct {
	Classes []inventory.Class
	Nodes   int
}

// Calendar is the question's whole ground.
type Calendar struct {
	Now      time.Time
	Machines []Machine
	Bookings []Booking // those earlier in the list come first among those that start at the same time
}

// Conflict says why something does not fit.
type Conflict struct {
	Own   int     // nodes that the request itself would lack
	Hurts Booking // else, a booking that would lack nodes because of it,
	Lacks int     // and how many
}

// Check says whether one more booking fits: it gets all its machines, and no other one lacks more than it does anyway. The
// given machines are those that it had best take now, of those free now; none if it starts later.
func (c Calendar) Check(b Booking) (given []inventory.Machine, conflict *Conflict) {
	board := c.board(b.classes())
	request := board.request(b, len(c.Bookings))
	share, conflict := board.try(c, request)
	if conflict != nil || b.From.After(c.Now) {
		return nil, conflict
	}
	for g, n := range share {
		given = append(given, board.groups[g].free[:n]...)
	}
	return given, nil
}

// mostDealt is to how many bookings First gives machines before it gives up, however many times: a tenth of a second's work.
const mostDealt = 50_000

// First is the first start, not before b.From, with which b fits for as long as it is now. It is b.From, or the time when
// machines come free: to start between two such times is to start no better than at the earlier one. False: there is none, or
// none among the first times; the more bookings there are, the fewer times are tried.
func (c Calendar) First(b Booking) (time.Time, bool) {
	board := c.board(b.classes())
	request := board.request(b, len(c.Bookings))
	length := request.until - request.from
	starts := board.starts(request.from)
	for _, start := range starts[:min(len(starts), 1+mostDealt/(1+len(c.Bookings)))] {
		request.from = start
		if request.until != forever {
			request.until = start + length
		}
		if _, conflict := board.try(c, request); conflict == nil {
			return instant(start), true
		}
	}
	return time.Time{}, false
}

// Longest is the latest end, not after b.Until, with which b fits if it starts as it says.
func (c Calendar) Longest(b Booking) (until time.Time, ok bool) {
	board := c.board(b.classes())
	request := board.request(b, len(c.Bookings))
	ends := []int64{request.until}
	for _, other := range board.all {
		if other.from > request.from && other.from < request.until {
			ends = append(ends, other.from)
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	fit := fitting(len(ends), func(i int) bool {
		request.until = ends[i]
		_, conflict := board.try(c, request)
		return conflict == nil
	})
	if fit == 0 {
		return time.Time{}, false
	}
	return instant(ends[fit-1]), true
}

// fitting is how many of some ends fit, the earliest first: to go on for longer is never easier.
func fitting(ends int, fits func(int) bool) int {
	return sort.Search(ends, func(i int) bool { return !fits(i) })
}

// Extend says whether a cluster may keep what it holds, and what it still waits for, until another time (zero: without
// end). If not, latest is the last end that would do: the one that it has, or a later one.
func (c Calendar) Extend(by string, until time.Time) (latest time.Time, conflict *Conflict) {
	own := func(who string) bool { return who == by }
	var now time.Time // its end as it is
	var ends []time.Time
	for _, m := range c.Machines {
		if own(m.By) {
			now = m.Until
		}
	}
	for _, b := range c.Bookings {
		if own(b.By) {
			now = b.Until
		} else if until.IsZero() || b.From.Before(until) {
			ends = append(ends, b.From)
		}
	}
	before := c.board(nil).base
	with := func(end time.Time) *Conflict {
		longer := Calendar{Now: c.Now, Machines: slices.Clone(c.Machines), Bookings: slices.Clone(c.Bookings)}
		for i := range longer.Machines {
			if own(longer.Machines[i].By) {
				longer.Machines[i].Until = end
			}
		}
		for i := range longer.Bookings {
			if own(longer.Bookings[i].By) {
				longer.Bookings[i].Until = end
			}
		}
		for i, lacks := range longer.board(nil).base.lacks {
			if lacks > before.lacks[i] && own(c.Bookings[i].By) {
				return &Conflict{Own: lacks}
			} else if lacks > before.lacks[i] {
				return &Conflict{Hurts: c.Bookings[i], Lacks: lacks - before.lacks[i]}
			}
		}
		return nil
	}
	if conflict = with(until); conflict == nil {
		return until, nil
	}
	ends = slices.DeleteFunc(ends, func(end time.Time) bool { return !end.After(now) })
	slices.SortFunc(ends, time.Time.Compare)
	if fit := fitting(len(ends), func(i int) bool { return with(ends[i]) == nil }); fit > 0 {
		return ends[fit-1], conflict
	}
	return now, conflict
}

// Lacking is how many nodes each booking will lack, in their order, as things stand.
func (c Calendar) Lacking() []int { return c.board(nil).base.lacks }

func (b Booking) classes() []inventory.Class {
	return slices.Concat(lists.Map(b.Wants, func(w Want) []inventory.Class { return w.Classes })...)
}
