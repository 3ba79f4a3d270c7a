package kindstest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/meter"
	"muster/internal/kinds/node"
	"muster/internal/price"
)

// Metered fails the test unless the meter's rows of each node and of each /home lie side by side, without a gap or an
// overlap, from the first instant of its life to the last, or go on.
func Metered(t testing.TB, db *core.Store) {
	t.Helper()
	err := db.View(context.Background(), func(tx *core.Tx) error {
		rows, err := meter.Rows(context.Background(), tx, meter.Of{}) // those of a subject stand together, in order
		if err != nil {
			return err
		}
		for len(rows) > 0 {
			n := 1
			for ; n < len(rows) && rows[n].Subject == rows[0].Subject; n++ {
				if !rows[n].From.Equal(rows[n-1].To) {
					t.Errorf("the meter of %s jumps from %s to %s", rows[0].Subject, rows[n-1].To, rows[n].From)
				}
			}
			began, ended, err := lifeOf(tx, rows[0])
			if err != nil {
				return err
			}
			if !rows[0].From.Equal(began) || !rows[n-1].To.Equal(ended) {
				t.Errorf("%s lived from %s to %s and was metered from %s to %s", rows[0].Subject, began, ended, rows[0].From,
					rows[n-1].To)
			}
			rows = rows[n:]
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// lifeOf is when what a row is about came and went; its end is zero while it is there.
func lifeOf(tx *core.Tx, r price.Usage) (began, ended time.Time, err error) {
	var life core.Life
	if r.Kind == price.Home {
		var c cluster.Cluster
		c, err = cluster.Get(context.Background(), tx, r.Subject)
		began, life = c.CreatedAt, c.Life
	} else {
		var n node.Node
		n, err = node.Get(context.Background(), tx, r.Subject)
		began, life = n.CreatedAt, n.Life
	}
	if life.Phase == core.Deleted || life.Phase == node.Gone {
		ended = life.PhaseAt
	}
	return began, ended, err
}

// Course is what a meter must tell of one thing: which states it was in, from when, in their order.
type Course []Turn

// Turn is the beginning of a state. The zero state is the end.
type Turn struct {
	State price.State
	At    time.Time
}

// Turn adds a state. One that lasted no time is forgotten, since a meter has no row of it; one that goes on is one.
func (c *Course) Turn(state price.State, at time.Time) {
	if n := len(*c); n > 0 && (*c)[n-1].At.Equal(at) {
		*c = (*c)[:n-1]
	}
	if n := len(*c); n == 0 || (*c)[n-1].State != state {
		*c = append(*c, Turn{state, at})
	}
}

func (c Course) String() string {
	var s strings.Builder
	for _, t := range c {
		state := t.State
		if state == "" {
			state = "ended"
		}
		fmt.Fprintf(&s, "%s %s, ", state, t.At.Format("04:05.000"))
	}
	return strings.TrimSuffix(s.String(), ", ")
}
