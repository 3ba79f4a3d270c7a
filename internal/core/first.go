package core

import "slices"

// First are the first of what read finds of each of some values, in order, none of them twice. Each value is looked for by
// itself, as there is an index of it: of several at once all that there is would be read, and sorted.
func First[V, T any](values []V, limit int, read func(V) ([]T, error), order func(a, b T) int) ([]T, error) {
	var all []T
	for _, v := range values {
		some, err := read(v)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		slices.SortFunc(all, order)
		all = slices.CompactFunc(all, func(a, b T) bool { return order(a, b) == 0 })
		all = all[:min(len(all), limit)]
	}
	return all, nil
}
