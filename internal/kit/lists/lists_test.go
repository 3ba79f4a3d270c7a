package lists

import (
	"reflect"
	"strconv"
	"testing"
)

func TestListsAndMapsOfLists(t *testing.T) {
	numbers := []int{3, 1, 3}
	for _, c := range []struct{ got, want any }{
		{Map(numbers, strconv.Itoa), []string{"3", "1", "3"}},
		{Map(nil, strconv.Itoa), []string(nil)},
		{By([]string{"a1", "b1", "a2"}, func(s string) byte { return s[0] }), map[byte]string{'a': "a2", 'b': "b1"}},
		{By[string, int](nil, nil), map[int]string{}},
		{Set(numbers), map[int]bool{1: true, 3: true}},
		{SetBy(numbers, func(n int) bool { return n > 2 }), map[bool]bool{true: true, false: true}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%v, not %v", c.got, c.want)
		}
	}
}
