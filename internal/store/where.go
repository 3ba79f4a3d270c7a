package store

import (
	"fmt"
	"strings"
)

// where is the condition of a query that is put together, with its arguments. In what is added, $? stands for the next
// argument.
type where struct {
	text string
	args []any
}

// and adds a condition.
func (w *where) and(condition string, args ...any) {
	word := " AND "
	if w.text == "" {
		word = " WHERE "
	}
	w.rest(word+condition, args...)
}

// among adds the condition that a column has one of some values.
func (w *where) among(column string, values []string) {
	if len(values) == 0 {
		w.and("1 = 0")
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	w.and(column+" IN ("+strings.TrimSuffix(strings.Repeat("$?, ", len(values)), ", ")+")", args...)
}

// rest adds what follows the conditions.
func (w *where) rest(text string, args ...any) {
	for _, arg := range args {
		w.args = append(w.args, arg)
		text = strings.Replace(text, "$?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.text += text
}
