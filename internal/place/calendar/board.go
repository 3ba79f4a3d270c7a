package calendar

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

const forever = int64(math.MaxInt64)

func millis(t time.Time) int64 {
	if t.IsZero() {
		return forever
	}
	return t.UnixMilli()
}

func instant(ms int64) time.Time {
	if ms == forever {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// board is a calendar made ready to be searched. Machines that belong to the same of all classes in question are alike, so
// that only their numbers count: a site with thousands has a handful of groups.
type board struct {
	now    int64
	groups []group
	of     []int            // machine → group
	held   []release        // by time
	fits   map[string][]int // class → its groups
	all    []*request       // the bookings, by start
	base   *schedule        // of them alone
}

// group is machines alike.
type group struct {
	size int
	free []inventory.Machine // those that can be had now, in the given order
}

// release is machines that come free.
type release struct {
	at    int64
	group int
	n     int
}

// request is a booking made ready.
type request struct {
	booking     int // its place in the calendar, which is past the last for one on trial
	from, until int64
	wants       []want
}

type want struct {
	groups []int // any of these
	nodes  int
}

// name tells classes apart: one that was narrowed has the name of the one that it was.
func name(c inventory.Class) string {
	return strings.Join(lists.Map(c.Select, inventory.Condition.String), ";")
}

// board groups the machines by the classes that the bookings want, and more.
func (c Calendar) board(more []inventory.Class) *board {
	b := &board{now: c.Now.UnixMilli(), fits: map[string][]int{}}
	var classes []inventory.Class
	add := func(class inventory.Class) {
		if _, known := b.fits[name(class)]; !known {
			b.fits[name(class)] = nil
			classes = append(classes, class)
		}
	}
	for _, booking := range c.Bookings {
		for _, class := range booking.classes() {
			add(class)
		}
	}
	for _, class := range more {
		add(class)
	}
	index, member := map[string]int{}, make([]byte, len(classes))
	releases := map[release]int{}
	for _, m := range c.Machines {
		for i, class := range classes {
			member[i] = '-'
			if class.Has(m.Machine) {
				member[i] = '+'
			}
		}
		g, known := index[string(member)]
		if !known {
			g = len(b.groups)
			index[string(member)] = g
			b.groups = append(b.groups, group{})
			for i, class := range classes {
				if member[i] == '+' {
					b.fits[name(class)] = append(b.fits[name(class)], g)
				}
			}
		}
		b.groups[g].size++
		b.of = append(b.of, g)
		if m.By == "" {
			b.groups[g].free = append(b.groups[g].free, m.Machine)
		} else if !m.Until.IsZero() {
			releases[release{at: max(millis(m.Until), b.now+1), group: g}]++ // what is held now is not free now
		}
	}
	for r, n := range releases {
		r.n = n
		b.held = append(b.held, r)
	}
	slices.SortFunc(b.held, func(x, y release) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.group, y.group)) })
	for i, booking := range c.Bookings {
		b.all = append(b.all, b.request(booking, i))
	}
	slices.SortStableFunc(b.all, func(x, y *request) int { return cmp.Compare(x.from, y.from) })
	b.base = b.run(b.all)
	return b
}

func (b *board) request(booking Booking, at int) *request {
	r := &request{booking: at, from: max(booking.From.UnixMilli(), b.now), until: millis(booking.Until)}
	for _, w := range booking.Wants {
		var groups []int
		for _, class := range w.Classes {
			groups = append(groups, b.fits[name(class)]...)
		}
		slices.Sort(groups)
		r.wants = append(r.wants, want{groups: slices.Compact(groups), nodes: w.Nodes})
	}
	return r
}

// try says whether one more request fits among all, and what it is given, group by group.
func (b *board) try(c Calendar, r *request) (share []int, conflict *Conflict) {
	at, _ := slices.BinarySearchFunc(b.all, r.from+1, func(x *request, from int64) int { return cmp.Compare(x.from, from) })
	with := b.run(slices.Insert(slices.Clone(b.all), at, r))
	if own := with.lacks[r.booking]; own > 0 {
		return nil, &Conflict{Own: own}
	}
	for i, booking := range c.Bookings {
		if lacks := with.lacks[i] - b.base.lacks[i]; lacks > 0 {
			return nil, &Conflict{Hurts: booking, Lacks: lacks}
		}
	}
	return with.given[r.booking], nil
}

// starts are the times, from one on, when it may make sense to start: that one, and when machines come free.
func (b *board) starts(from int64) []int64 {
	starts := []int64{from}
	for _, r := range b.held {
		starts = append(starts, r.at)
	}
	for _, r := range b.all {
		starts = append(starts, r.until)
	}
	slices.Sort(starts)
	starts = slices.DeleteFunc(slices.Compact(starts), func(at int64) bool { return at < from || at == forever })
	return starts
}
