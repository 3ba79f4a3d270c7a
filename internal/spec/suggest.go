package spec

import "strings"

// closest finds the word that was probably meant, or "" when none is near. Case and the choice of '-', '_' or nothing between
// words are not counted as mistakes.
func closest(word string, known []string) string {
	const longest = 32 // nothing in the table comes near; keeps the work small whatever is written
	if len(word) > longest {
		return ""
	}
	best, least := "", 1+len(word)/4
	for _, k := range known {
		if d := distance(fold(word), fold(k)); d <= min(2, least) && d < len(k) {
			best, least = k, d-1
		}
	}
	return best
}

func fold(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}

// distance counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
