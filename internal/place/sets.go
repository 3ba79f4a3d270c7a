package place

import (
	"cmp"
	"iter"
	"slices"
)

// mostSets bounds a search: as many sets of one size are weighed, at most. All sets of 16 NUMA nodes are fewer (12,870 of
// 8), and few machines have more that hold cores.
const mostSets = 13_000

// sets yields sets of k of these nodes, in the order of their numbers. Where there are too many, only those are yielded that
// are one node and its nearest: the answer is then good, not proven to be the best, and one that needs nodes apart is missed.
func (s *stock) sets(able []int, k int) iter.Seq[[]int] {
	if ways(len(able), k) > mostSets {
		return s.neighbourhoods(able, k)
	}
	return func(yield func([]int) bool) {
		set := make([]int, k)
		var fill func(at, from int) bool
		fill = func(at, from int) bool {
			if at == k {
				return yield(set)
			}
			for i := from; i <= len(able)-(k-at); i++ {
				set[at] = able[i]
				if !fill(at+1, i+1) {
					return false
				}
			}
			return true
		}
		fill(0, 0)
	}
}

func (s *stock) neighbourhoods(able []int, k int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for _, seed := range able {
			away := func(i int) int {
				if i == seed {
					return 0
				}
				return s.distance(seed, i)
			}
			set := slices.Clone(able)
			slices.SortStableFunc(set, func(a, b int) int { return cmp.Compare(away(a), away(b)) })
			set = set[:k]
			slices.Sort(set)
			if !yield(set) {
				return
			}
		}
	}
}

// ways is how many sets of k there are of n, or more than mostSets.
func ways(n, k int) int {
	count := 1
	for i := range min(k, n-k) {
		count = count * (n - i) / (i + 1)
		if count > mostSets {
			break
		}
	}
	return count
}
