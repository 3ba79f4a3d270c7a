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

// among adds the condition that a column has one of some values, or one of other columns its own: pairs of column and
// value, of which those with the value "" count for nothing.
func (w *where) among(column string, values []string, or ...string) {
	var ways []string
	var args []any
	if len(values) > 0 {
		ways = append(ways, column+" IN ("+strings.TrimSuffix(strings.Repeat("$?, ", len(values)), ", ")+")")
		for _, v := range values {
			args = append(args, v)
		}
	}
	for ; len(or) > 1; or = or[2:] {
		if or[1] != "" {
			ways, args = append(ways, or[0]+" = $?"), append(args, or[1])
		}
	}
	if len(ways) == 0 {
		ways = []string{"1 = 0"}
	}
	w.and("("+strings.Join(ways, " OR ")+")", args...)
}

// rest adds what follows the conditions.
func (w *where) rest(text string, args ...any) {
	for _, arg := range args {
		w.args = append(w.args, arg)
		text = strings.Replace(text, "$?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.text += text
}
