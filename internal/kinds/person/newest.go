package person

import (
	"slices"

	"muster/internal/core"
)

// scope is a column and its value; the zero one is everything.
type scope struct{ column, value string }

func (s scope) narrow(which *core.Where) {
	if s.column != "" {
		which.And(s.column+` = $?`, s.value)
	}
}

// newest are the first of what read finds of some projects, and of a person elsewhere ("": nobody), in order; of everything where
// projects are nil. Each is looked for by itself, as there is an index of it: all at once would be looked for among everybody's.
func newest[T any](projects []string, person string, limit int, read func(scope) ([]T, error),
	order func(a, b T) int) ([]T, error) {
	if projects == nil {
		return read(scope{})
	}
	var scopes []scope
	for _, p := range projects {
		scopes = append(scopes, scope{"project", p})
	}
	if person != "" {
		scopes = append(scopes, scope{"person", person})
	}
	var all []T
	for _, s := range scopes {
		some, err := read(s)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		slices.SortFunc(all, order)
		all = slices.CompactFunc(all, func(a, b T) bool { return order(a, b) == 0 }) // in a project of the person's
		all = all[:min(len(all), limit)]
	}
	return all, nil
}
