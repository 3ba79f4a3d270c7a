package person

import (
	"muster/internal/core"
	"muster/internal/kit/lists"
)

// scope is a column and its value; the zero one is everything.
type scope struct{ column, value string }

func (s scope) narrow(which *core.Where) {
	which.When(s.column != "", s.column+` = $?`, s.value)
}

// newest are the first of what read finds of some projects, and of a person elsewhere ("": no person), in order; of everything
// where projects are nil.
func newest[T any](projects []string, person string, limit int, read func(scope) ([]T, error),
	order func(a, b T) int) ([]T, error) {
	if projects == nil {
		return read(scope{})
	}
	scopes := lists.Map(projects, func(p string) scope { return scope{"project", p} })
	if person != "" {
		scopes = append(scopes, scope{"person", person})
	}
	return core.First(scopes, limit, read, order) // what is in a project of the person's is there once
}
