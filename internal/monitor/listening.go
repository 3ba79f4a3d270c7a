package monitor

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kit/clock"
)

// ThisHost is the place of nodes that reach the controllers by sockets of their host; every other place is a network.
const ThisHost = ""

// listenEvery is how often a controller notes that it hears a place: well within what the database counts as a gap.
const listenEvery = time.Second

// Listen notes, until ctx ends, that this controller hears the agents of a place. Run it beside what serves them. A
// controller that is stopped, or whose database is away, notes nothing, and the silence of nodes counts again from when it
// does again.
func (m *Monitor) Listen(ctx context.Context, place string) error {
	heard := true
	for ctx.Err() == nil {
		err := m.db.Quietly(ctx, func(tx *core.Tx) error { return host.Listen(ctx, tx, place, m.owner) })
		if err != nil && ctx.Err() == nil && heard {
			m.log.Error("cannot record that agents are heard; their silence does not count meanwhile", "place", place, "error", err)
		}
		heard = err == nil
		_ = clock.Sleep(ctx, listenEvery)
	}
	return nil
}
