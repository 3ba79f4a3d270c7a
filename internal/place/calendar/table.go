package calendar

import (
	"cmp"
	"slices"
	"time"

	"muster/internal/inventory"
)

// Slot is a time in which nothing changes for a class.
type Slot struct {
	From, Until time.Time
	Free        int // machines that nobody has or has reserved
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

// Table says for each class what is free, held and reserved between two times. Every booking is shown on machines that would
// do, so that the numbers of classes that overlap belong to one picture.
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
	table := make([][]Slot, len(classes))
	for i, class := range classes {
		table[i] = b.slots(b.fits[name(class)], parts, from.UnixMilli(), until.UnixMilli())
	}
	return table
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
	cuts := []int64{from}
	var own []part
	for _, p := range parts {
		if slices.Contains(groups, p.group) {
			own = append(own, p)
			cuts = append(cuts, p.from, p.until)
		}
	}
	slices.Sort(cuts)
	cuts = slices.DeleteFunc(slices.Compact(cuts), func(at int64) bool { return at < from || at >= until })
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
		if last := len(slots) - 1; last >= 0 && s.Free == slots[last].Free && slices.Equal(s.By, slots[last].By) {
			slots[last].Until = s.Until
			continue
		}
		slots = append(slots, s)
	}
	return slots
}
