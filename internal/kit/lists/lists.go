// Package lists makes lists and maps of lists.
package lists

// Map is what f makes of each element, in their order; nil of none.
func Map[T, U any](list []T, f func(T) U) []U {
	var all []U
	for _, one := range list {
		all = append(all, f(one))
	}
	return all
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
