// Package ticket is a toy kind, in one folder: what a new kind has to say of itself. A ticket is opened, worked on and closed.
package ticket

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// Kind is also the table.
const Kind core.Kind = "ticket"

// Phases of a ticket, beside core.Pending and core.Failed.
const (
	Working core.Phase = "working"
	Closed  core.Phase = "closed"
)

// Definition registers the kind.
func Definition() core.Definition {
	return core.Definition{
		Kind:     Kind,
		Phases:   []core.Phase{core.Pending, Working, core.Failed},
		End:      Closed,
		Failures: []core.Phase{core.Failed},
		Tables:   `CREATE TABLE IF NOT EXISTS ticket (id TEXT PRIMARY KEY, text TEXT NOT NULL, {{life}})`,
	}
}

// Ticket is a row.
type Ticket struct {
	core.Life
	ID   string
	Text string
}

// Add stores a new ticket.
func Add(ctx context.Context, tx *core.Tx, id, text string) error {
	_, err := tx.Exec(ctx, `INSERT INTO ticket (id, text, phase, phase_at, wake_at) VALUES ($1, $2, $3, now_ms(), now_ms())`, id,
		text, string(core.Pending))
	return wrap.Errorf(err, "add ticket %s", id)
}

// Get finds a ticket.
func Get(ctx context.Context, tx *core.Tx, id string) (Ticket, error) {
	scan := func(r core.Scanner) (t Ticket, err error) {
		err = r.Scan(append([]any{&t.ID, &t.Text}, t.Fields()...)...)
		return t, err
	}
	t, err := core.One(ctx, tx, scan, `SELECT id, text, `+core.LifeColumns+` FROM ticket WHERE id = $1`, id)
	return t, wrap.Errorf(err, "ticket %s", id)
}

// Life is the kind's table of phase → handler. A ticket without a text fails.
func Life(db *core.Store) core.Table {
	return core.StateTable[Ticket]{
		DB: db,
		Of: Kind,
		Load: func(ctx context.Context, tx *core.Tx, id string) (Ticket, core.Subject, error) {
			t, err := Get(ctx, tx, id)
			return t, core.Subject{Life: t.Life, Event: core.Event{Node: id}}, err
		},
		Phases: map[core.Phase]core.Handler[Ticket]{
			core.Pending: {Do: func(context.Context, Ticket) core.Outcome {
				return core.Advance(Working, "somebody works on it")
			}},
			Working:     {Do: work, Deadline: func(t Ticket) time.Time { return t.PhaseAt.Add(time.Hour) }, Late: late},
			core.Failed: {Do: func(context.Context, Ticket) core.Outcome { return core.Rest() }},
		},
	}
}

func work(_ context.Context, t Ticket) core.Outcome {
	if t.Text == "" {
		return core.Advance(core.Failed, "it says nothing")
	}
	return core.Advance(Closed, "done: %s", t.Text)
}

func late(Ticket) core.Outcome { return core.Advance(core.Failed, "nobody had time") }
