package calendar

import (
	"cmp"
	"slices"
	"time"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// Slot is a time in which nothing changes for a class.
type Slot struct {
	From, Until time.Time
	Free        int // machines that are neither held nor reserved
	Held        int // by nodes that are there
	Reserved    int // by bookings
	By          []Share
}

// Share is one cluster's part of a class.
type Share struct {
	By       string
	Machines int
	Reserved bool // booked, not held
}

// What tenants reserve says how much there is to show: so many times of change at most, and of each so many shares, the largest.
const (
	mostCuts   = 500
	mostShares = 20
)

// Others has what no share of a slot's own is of.
const Others = "(others)"

// Table says for each class what is free, held and reserved between two times, or until an earlier one where very much changes:
// the slots of all classes end at the same time. Every booking is shown on machines that would do, so that the numbers of
// classes that overlap belong to one picture.
func (c Calendar) Table(classes []inventory.Class, from, until time.Time) [][]Slot {
	b := c.board(classes)
	var parts []part
	for i, m := range c.Machines {
		if m.By != "" {
			parts = append(parts, part{by: m.By, group: b.of[i], n: 1, from: b.now, until: max(millis(m.Until), b.now+1)})
		}
	}
	for _, r := range b.all {
		for g, n := range b.base.given[r.booking] {
			if n > 0 {
				parts = append(parts, part{c.Bookings[r.booking].By, true, g, n, r.from, r.until})
			}
		}
	}
	begin, end := from.UnixMilli(), until.UnixMilli()
	if cuts := cutsOf(parts, begin, end); len(cuts) > mostCuts {
		end = cuts[mostCuts]
	}
	return lists.Map(classes, func(class inventory.Class) []Slot { return b.slots(b.fits[name(class)], parts, begin, end) })
}

// cutsOf is when anything changes between two times, and the first of them.
func cutsOf(parts []part, from, until int64) []int64 {
	cuts := []int64{from}
	for _, p := range parts {
		cuts = append(cuts, p.from, p.until)
	}
	slices.Sort(cuts)
	return slices.DeleteFunc(slices.Compact(cuts), func(at int64) bool { return at < from || at >= until })
}

// part is some machines of a group for a time.
type part struct {
	by          string
	reserved    bool
	group, n    int
	from, until int64
}

// slots cuts a time where anything changes for a class, whose groups are given.
func (b *board) slots(groups []int, parts []part, from, until int64) []Slot {
	size := 0
	for _, g := range groups {
		size += b.groups[g].size
	}
	own := lists.Filter(parts, func(p part) bool { return slices.Contains(groups, p.group) })
	cuts := cutsOf(own, from, until)
	var slots []Slot
	for i, cut := range cuts {
		end := until
		if i+1 < len(cuts) {
			end = cuts[i+1]
		}
		s := Slot{From: instant(cut), Until: instant(end), Free: size}
		who := map[Share]int{}
		for _, p := range own {
			if p.from > cut || p.until <= cut {
				continue
			}
			s.Free -= p.n
			if p.reserved {
				s.Reserved += p.n
			} else {
				s.Held += p.n
			}
			who[Share{By: p.by, Reserved: p.reserved}] += p.n
		}
		for share, n := range who {
			share.Machines = n
			s.By = append(s.By, share)
		}
		slices.SortFunc(s.By, func(x, y Share) int {
			return cmp.Or(cmp.Compare(y.Machines, x.Machines), cmp.Compare(x.By, y.By))
		})
		s.By = largest(s.By)
		if last := len(slots) - 1; last >= 0 && s.Free == slots[last].Free && slices.Equal(s.By, slots[last].By) {
			slots[last].Until = s.Until
			continue
		}
		slots = append(slots, s)
	}
	return slots
}

// largest are the first of many shares, and what the others have together.
func largest(shares []Share) []Share {
	if len(shares) <= mostShares {
		return shares
	}
	held, reserved := Share{By: Others}, Share{By: Others, Reserved: true}
	for _, s := range shares[mostShares:] {
		if s.Reserved {
			reserved.Machines += s.Machines
		} else {
			held.Machines += s.Machines
		}
	}
	shares = slices.Clip(shares[:mostShares])
	for _, rest := range []Share{held, reserved} {
		if rest.Machines > 0 {
			shares = append(shares, rest)
		}
	}
	return shares
}
