// Package lists makes lists and maps of lists.
package lists

import "slices"

// Map is what f makes of each element, in their order; nil of none.
func Map[T, U any](list []T, f func(T) U) []U {
	if len(list) == 0 {
		return nil
	}
	all := make([]U, len(list))
	for i, one := range list {
		all[i] = f(one)
	}
	return all
}

// Filter is the elements that are so, in their order; nil of none.
func Filter[T any](list []T, is func(T) bool) []T {
	var some []T
	for _, one := range list {
		if is(one) {
			some = append(some, one)
		}
	}
	return some
}

// Find is the first element that is so; found is false if there is none.
func Find[T any](list []T, is func(T) bool) (first T, found bool) {
	i := slices.IndexFunc(list, is)
	if i < 0 {
		return first, false
	}
	return list[i], true
}

// By finds elements by a key of theirs. Of several with one key it is the last.
func By[T any, K comparable](list []T, key func(T) K) map[K]T {
	all := make(map[K]T, len(list))
	for _, one := range list {
		all[key(one)] = one
	}
	return all
}

// Set tells which elements there are.
func Set[T comparable](list []T) map[T]bool {
	return SetBy(list, func(one T) T { return one })
}

// SetBy tells which keys elements have.
func SetBy[T any, K comparable](list []T, key func(T) K) map[K]bool {
	all := make(map[K]bool, len(list))
	for _, one := range list {
		all[key(one)] = true
	}
	return all
}
