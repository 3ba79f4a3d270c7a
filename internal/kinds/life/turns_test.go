package life

import (
	"fmt"
	"testing"
)

func TestCopiesHaveTurnsOfAProjectAndOfAll(t *testing.T) {
	var turns Turns
	var leave []func()
	for i := range copiesOfAll {
		l, ok := turns.Take(fmt.Sprint("p", i/copiesOfOne))
		if !ok {
			t.Fatalf("turn %d is not given", i)
		}
		leave = append(leave, l)
		if i == copiesOfOne-1 {
			if _, ok := turns.Take("p0"); ok {
				t.Error("one project has too many")
			}
		}
	}
	if _, ok := turns.Take("another"); ok {
		t.Error("all have too many")
	}
	leave[0]()
	leave[0]() // once is enough
	if _, ok := turns.Take("another"); !ok {
		t.Error("a turn that was given back is not given")
	}
	if _, ok := turns.Take("p0"); ok {
		t.Error("a turn was given back twice")
	}
}
