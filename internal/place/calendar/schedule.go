package calendar

import (
	"cmp"
	"slices"
)

// schedule is which machines each booking gets.
type schedule struct {
	lacks []int   // booking → nodes that it does not get
	given [][]int // booking → group → machines
}

// run goes through the bookings by their start and gives each its machines for the whole of its time: a machine that is
// given stays given, as nodes do not move. Among machines alike that is the best there is: if at no time more are wanted than
// there are, everybody gets theirs. Where classes overlap, a booking takes those machines that later ones can best do without;
// the best choice of all would be a search without end, so that then, rarely, something is refused that would have fitted. What
// is accepted fits in any case.
func (b *board) run(all []*request) *schedule {
	s := &schedule{lacks: make([]int, len(all)), given: make([][]int, len(all))}
	free := make([]int, len(b.groups))
	for g := range b.groups {
		free[g] = len(b.groups[g].free)
	}
	held, pressures := b.held, b.pressures(all)
	var due []release // of bookings
	for i, r := range all {
		for len(held) > 0 && held[0].at <= r.from {
			free[held[0].group] += held[0].n
			held = held[1:]
		}
		due = slices.DeleteFunc(due, func(d release) bool {
			if d.at <= r.from {
				free[d.group] += d.n
			}
			return d.at <= r.from
		})
		deal := newDeal(r.wants, free, b.preference(all, i, pressures))
		s.lacks[r.booking] = deal.lacks
		s.given[r.booking] = deal.given()
		for g, n := range s.given[r.booking] {
			free[g] -= n
			if n > 0 && r.until != forever {
				due = append(due, release{at: r.until, group: g, n: n})
			}
		}
	}
	return s
}

// preference orders the groups: first those that the bookings which come while the one at this place lasts need least.
func (b *board) preference(all []*request, at int, pressures [][]int64) []int {
	order := make([]int, len(b.groups))
	for g := range order {
		order[g] = g
	}
	r := all[at]
	if !slices.ContainsFunc(r.wants, func(w want) bool { return len(w.groups) > 1 }) {
		return order
	}
	end, _ := slices.BinarySearchFunc(all, r.until, func(x *request, until int64) int { return cmp.Compare(x.from, until) })
	before, later := pressures[at+1], pressures[max(at+1, end)]
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(later[x]-before[x], later[y]-before[y]) })
	return order
}

// pressures are, for each place in a list of bookings, how much those before it want of each group: of one machine in so many,
// so many parts of a million.
func (b *board) pressures(all []*request) [][]int64 {
	sums := make([][]int64, len(all)+1)
	sums[0] = make([]int64, len(b.groups))
	for i, r := range all {
		sums[i+1] = slices.Clone(sums[i])
		for _, w := range r.wants {
			size := 0
			for _, g := range w.groups {
				size += b.groups[g].size
			}
			for _, g := range w.groups {
				sums[i+1][g] += int64(w.nodes) * 1_000_000 / int64(size)
			}
		}
	}
	return sums
}

// deal shares out free machines among the wants of one booking.
type deal struct {
	wants  []want
	free   []int   // group → machines left
	shares [][]int // want → group → machines
	lacks  int
}

// newDeal gives the wants as much as can be, groups in the given order. The want with the fewest machines to choose from goes
// first, and a machine is handed on when a later want can use nothing else.
func newDeal(wants []want, free, order []int) *deal {
	d := &deal{wants: wants, free: slices.Clone(free), shares: make([][]int, len(wants))}
	choice := make([]int, len(wants))
	turn := make([]int, len(wants))
	for w := range wants {
		d.shares[w] = make([]int, len(free))
		turn[w] = w
		for _, g := range wants[w].groups {
			choice[w] += free[g]
		}
	}
	slices.SortStableFunc(turn, func(x, y int) int { return cmp.Compare(choice[x], choice[y]) })
	for _, w := range turn {
		left := wants[w].nodes
		for _, g := range order {
			if n := min(left, d.free[g]); n > 0 && slices.Contains(wants[w].groups, g) {
				d.move(w, g, n)
				left -= n
			}
		}
		for left > 0 {
			n := d.handOn(w, left)
			if n == 0 {
				break
			}
			left -= n
		}
		d.lacks += left
	}
	return d
}

func (d *deal) move(w, g, n int) {
	d.shares[w][g] += n
	d.free[g] -= n
}

// handOn finds a shortest chain of wants, from w to one that can use a free machine, in which each can use machines of the
// next, and moves up to n along it. It returns how many.
func (d *deal) handOn(w, n int) int {
	type step struct{ want, group int } // the want and the group of machines that led here
	came := map[int]step{w: {-1, -1}}
	for queue := []int{w}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, g := range d.wants[at].groups {
			if d.free[g] > 0 {
				most := min(n, d.free[g])
				for x := at; x != w; x = came[x].want {
					most = min(most, d.shares[x][came[x].group])
				}
				d.move(at, g, most)
				for x := at; x != w; x = came[x].want {
					d.shares[x][came[x].group] -= most
					d.shares[came[x].want][came[x].group] += most
				}
				return most
			}
			for other := range d.wants {
				if _, seen := came[other]; !seen && d.shares[other][g] > 0 {
					came[other] = step{at, g}
					queue = append(queue, other)
				}
			}
		}
	}
	return 0
}

func (d *deal) given() []int {
	total := make([]int, len(d.free))
	for _, share := range d.shares {
		for g, n := range share {
			total[g] += n
		}
	}
	return total
}
