package core

import (
	"fmt"
	"strings"
)

// Where is the condition of a query that is put together, with its arguments. In what is added, $? stands for the next
// argument.
type Where struct {
	Text string
	Args []any
}

// And adds a condition.
func (w *Where) And(condition string, args ...any) {
	word := " AND "
	if w.Text == "" {
		word = " WHERE "
	}
	w.Rest(word+condition, args...)
}

// When adds a condition if something is so.
func (w *Where) When(is bool, condition string, args ...any) {
	if is {
		w.And(condition, args...)
	}
}

// Among adds the condition that a column has one of some values. nil stands for all that there are.
func (w *Where) Among(column string, values []string) {
	if values == nil {
		return
	}
	if len(values) == 0 {
		w.And("1 = 0")
		return
	}
	var args []any
	for _, v := range values {
		args = append(args, v)
	}
	w.And(column+" IN ("+strings.TrimSuffix(strings.Repeat("$?, ", len(values)), ", ")+")", args...)
}

// Rest adds what follows the conditions.
func (w *Where) Rest(text string, args ...any) {
	var b strings.Builder
	for _, arg := range args {
		w.Args = append(w.Args, arg)
		before, after, _ := strings.Cut(text, "$?")
		fmt.Fprintf(&b, "%s$%d", before, len(w.Args))
		text = after
	}
	w.Text += b.String() + text
}
