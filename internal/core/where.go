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

// Among adds the condition that a column has one of some values, or one of other columns its own: pairs of column and
// value, of which those with the value "" count for nothing.
func (w *Where) Among(column string, values []string, or ...string) {
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
	w.And("("+strings.Join(ways, " OR ")+")", args...)
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
