// Package words puts numbers into sentences.
package words

import "fmt"

// Count is a number of things, as in "1 node" and "2 nodes". The noun's plural ends in s.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
