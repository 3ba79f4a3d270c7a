package lists

import (
	"reflect"
	"strconv"
	"testing"
)

func TestTheFirstIsFound(t *testing.T) {
	names := []string{"a1", "b1", "b2"}
	if name, found := Find(names, func(s string) bool { return s[0] == 'b' }); name != "b1" || !found {
		t.Error(name, found)
	}
	if name, found := Find(names, func(s string) bool { return s[0] == 'c' }); name != "" || found {
		t.Error(name, found)
	}
}

func TestListsAndMapsOfLists(t *testing.T) {
	numbers := []int{3, 1, 3}
	for _, c := range []struct{ got, want any }{
		{Map(numbers, strconv.Itoa), []string{"3", "1", "3"}},
		{Map(nil, strconv.Itoa), []string(nil)},
		{Filter(numbers, func(n int) bool { return n > 2 }), []int{3, 3}},
		{Filter(numbers, func(n int) bool { return n > 3 }), []int(nil)},
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
