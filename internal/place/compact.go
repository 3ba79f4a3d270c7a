package place

import (
	"cmp"
	"math"
	"slices"
)

// landscape is what placement by topology looks at: how many machines are free in each place, how far places are from each
// other, and how many nodes are in each already. Its cost is what compact makes small.
type landscape struct {
	free   []int
	there  []int // nodes that are there to be near to
	near   []int // hops from a machine in each place to all of those
	apart  [][]int
	within []int // between machines of one place: 0, but for the place of machines that are on no map
}

// What an answer costs, in one number: hops first, then places, then machines left over in places that are not filled. The
// weights keep the three apart for as many nodes as a cluster may have.
const (
	perHop   = int64(1) << 32
	perPlace = int64(1) << 16
	never    = math.MaxInt64 / 4
)

// here is the cost of n nodes in place p, beside what is there, without that between places.
func (g *landscape) here(p, n int) int64 {
	if n == 0 {
		return 0
	}
	hops := g.within[p]*n*(n-1)/2 + g.near[p]*n
	return int64(hops)*perHop + perPlace + int64(g.free[p]-n)
}

// cost of an answer.
func (g *landscape) cost(answer []int) int64 {
	sum := int64(0)
	for p, n := range answer {
		sum += g.here(p, n)
		for q := range p {
			sum += int64(n*answer[q]*g.apart[p][q]) * perHop
		}
	}
	return sum
}

// compact says how many of n nodes go to each place, so that the sum of the hops between any two of them, and to those that
// are there, is as low as can be; then on as few places as can be; then so that whole places stay whole. At least n machines
// must be free. In trees of switches the answer is the best there is; elsewhere it is a good one. Equal answers are decided by
// the places' order.
func (g *landscape) compact(n int) []int {
	var used []int
	for p, free := range g.free {
		if free > 0 {
			used = append(used, p)
		}
	}
	if root := g.tree(used); root != nil {
		answer := make([]int, len(g.free))
		root.solve(g, n)
		root.answer(n, answer)
		return answer
	}
	return g.search(used, n)
}

// branch is a part of a tree of places: one place, or branches that are all equally far from each other.
type branch struct {
	place    int // of a leaf
	height   int // hops between machines of different branches below; 0 of a leaf
	below    []*branch
	machines int

	best  []int64   // nodes → lowest cost
	share [][]int32 // of below: nodes in the first branches up to this → how many of them are in it
}

// tree brings places into a tree that has their distances; nil if there is none.
func (g *landscape) tree(places []int) *branch {
	if len(places) == 1 {
		return &branch{place: places[0], machines: g.free[places[0]]}
	}
	b := &branch{place: -1}
	for i, p := range places {
		for _, q := range places[:i] {
			b.height = max(b.height, g.apart[p][q])
		}
	}
	if b.height == 0 { // places that are as good as one
		for _, p := range places {
			b.add(&branch{place: p, machines: g.free[p]})
		}
		return b
	}
	var parts [][]int
	for _, p := range places {
		i := slices.IndexFunc(parts, func(part []int) bool { return g.apart[p][part[0]] < b.height })
		if i < 0 {
			i = len(parts)
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], p)
	}
	of := map[int]int{}
	for i, part := range parts {
		for _, p := range part {
			of[p] = i
		}
	}
	for i, p := range places {
		for _, q := range places[:i] {
			if (g.apart[p][q] < b.height) != (of[p] == of[q]) {
				return nil
			}
		}
	}
	for _, part := range parts {
		sub := g.tree(part)
		if sub == nil {
			return nil
		}
		b.add(sub)
	}
	return b
}

func (b *branch) add(sub *branch) {
	b.below = append(b.below, sub)
	b.machines += sub.machines
}

// solve finds the lowest cost of every number of nodes up to n. Of k nodes in branches with k1, k2 …, the pairs in different
// branches are (k² - k1² - k2² …) / 2: what a branch adds depends on its own number alone, so that branches can be taken in
// one after the other. The work is about machines × nodes.
func (b *branch) solve(g *landscape, n int) {
	most := min(n, b.machines)
	b.best = make([]int64, most+1)
	if b.place >= 0 {
		for k := range b.best {
			b.best[k] = g.here(b.place, k)
		}
		return
	}
	half := int64(b.height) * (perHop / 2)
	sum, have := []int64{0}, 0
	for _, sub := range b.below {
		sub.solve(g, n)
		total := min(n, have+sub.machines)
		next, share := make([]int64, total+1), make([]int32, total+1)
		for k := range next {
			next[k] = never
			for own := max(0, k-have); own < len(sub.best) && own <= k; own++ {
				if c := sum[k-own] + sub.best[own] - half*int64(own)*int64(own); c < next[k] {
					next[k], share[k] = c, int32(own)
				}
			}
		}
		sum, have = next, total
		b.share = append(b.share, share)
	}
	for k := range b.best {
		b.best[k] = sum[k] + half*int64(k)*int64(k)
	}
}

// answer writes what n nodes cost least.
func (b *branch) answer(n int, to []int) {
	if b.place >= 0 {
		to[b.place] = n
		return
	}
	for i := len(b.below) - 1; i >= 0; i-- {
		own := int(b.share[i][n])
		b.below[i].answer(own, to)
		n -= own
	}
}

// How long a search looks: from how many places it begins, with how many of these beginnings it goes on, and how often it tries
// all moves between two places.
const (
	beginnings = 128
	tries      = 8
	rounds     = 16
)

// search is for places that no tree describes. From every place (of many, from those with the most free machines) it takes in
// whatever place is nearest to what it has; the best of these answers it makes better by moving nodes from place to place for as
// long as that helps.
func (g *landscape) search(places []int, n int) []int {
	first := slices.Clone(places)
	if len(first) > beginnings {
		slices.SortStableFunc(first, func(a, b int) int { return cmp.Compare(g.free[b], g.free[a]) })
		first = first[:beginnings]
	}
	type priced struct {
		answer []int
		cost   int64
	}
	var answers []priced
	for _, p := range first {
		answer := g.grow(places, p, n)
		answers = append(answers, priced{answer, g.cost(answer)})
	}
	cheaper := func(a, b priced) int { return cmp.Compare(a.cost, b.cost) }
	slices.SortStableFunc(answers, cheaper)
	answers = answers[:min(tries, len(answers))]
	for i, a := range answers {
		answers[i].cost += g.improve(places, a.answer)
	}
	return slices.MinFunc(answers, cheaper).answer
}

// grow is the answer that begins with a place.
func (g *landscape) grow(places []int, first, n int) []int {
	answer := make([]int, len(g.free))
	far := make([]int, len(g.free)) // hops from a machine in each place to all of the answer
	for next := first; n > 0; {
		answer[next] = min(n, g.free[next])
		n -= answer[next]
		for _, p := range places {
			far[p] += answer[next] * g.apart[p][next]
		}
		best, at := int64(never), -1
		for _, p := range places {
			if answer[p] > 0 {
				continue
			}
			take := min(n, g.free[p])
			hops := g.here(p, take) + int64(take*far[p])*perHop
			if take > 0 && hops/int64(take) < best { // for each node
				best, at = hops/int64(take), p
			}
		}
		if at < 0 {
			break
		}
		next = at
	}
	return answer
}

// improve moves nodes, and says what that adds to the cost. Between two places it is best to move as many as can be, or none:
// the cost bends down in between.
func (g *landscape) improve(places, answer []int) (added int64) {
	far := make([]int, len(g.free)) // hops from a machine in each place to all of the answer
	for _, p := range places {
		for _, q := range places {
			far[p] += answer[q] * g.apart[p][q]
		}
	}
	for round, better := 0, true; better && round < rounds; round++ {
		better = false
		for _, from := range places {
			for _, to := range places {
				n := min(answer[from], g.free[to]-answer[to])
				if from == to || n <= 0 {
					continue
				}
				a, b, between := answer[from], answer[to], g.apart[from][to]
				hops := n*(far[to]-far[from]+(b-a)*between) + ((a-n)*(b+n)-a*b)*between
				change := int64(hops)*perHop + g.here(from, a-n) + g.here(to, b+n) - g.here(from, a) - g.here(to, b)
				if change >= 0 {
					continue
				}
				added, better = added+change, true
				answer[from], answer[to] = a-n, b+n
				for _, p := range places {
					far[p] += n * (g.apart[p][to] - g.apart[p][from])
				}
			}
		}
	}
	return added
}

// spread says how many of n nodes go to each place, so that they and those that are there are on as many places as can be,
// and as evenly; machines that are on no map may be on any leaf, and come last. Of equal places it is the one that is farthest
// from what was chosen, then the one with the most free machines.
func (g *landscape) spread(n int) []int {
	answer := make([]int, len(g.free))
	far := make([]int, len(g.free))
	for p := range far {
		for q, nodes := range g.there {
			far[p] += nodes * g.apart[p][q]
		}
	}
	for range n {
		best := -1
		for p := range g.free {
			if answer[p] < g.free[p] && (best < 0 ||
				cmp.Or(cmp.Compare(g.within[p], g.within[best]), cmp.Compare(g.there[p]+answer[p], g.there[best]+answer[best]),
					cmp.Compare(far[best], far[p]), cmp.Compare(g.free[best], g.free[p])) < 0) {
				best = p
			}
		}
		answer[best]++
		for p := range far {
			far[p] += g.apart[p][best]
		}
	}
	return answer
}
