package centre

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/core"
	"muster/internal/identity"
	centres "muster/internal/kinds/centre"
	"muster/internal/kit/clock"
)

// Watcher looks at the registered centres, and writes down what it sees. Replicas share the work.
type Watcher struct {
	DB        *core.Store
	Authority *identity.Authority
	Log       *slog.Logger
}

const (
	every   = time.Minute      // how often a centre is looked at
	tick    = time.Second      // how often it is asked who is due: as late is a new one seen
	patient = 30 * time.Second // how long a centre may take; less than every
	most    = 16               // as many are looked at at the same time
)

// Run looks until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	var looks errgroup.Group
	looks.SetLimit(most)
	for {
		c, err := w.due(ctx)
		switch {
		case err == nil:
			looks.Go(func() error { w.look(ctx, c); return nil })
			continue
		case !errors.Is(err, core.ErrNotFound) && ctx.Err() == nil:
			w.Log.ErrorContext(ctx, "cannot list the registered centres", "error", err)
		}
		if clock.Sleep(ctx, tick) != nil {
			return looks.Wait()
		}
	}
}

func (w *Watcher) due(ctx context.Context) (c centres.Centre, err error) {
	err = w.DB.Quietly(ctx, func(tx *core.Tx) error {
		c, err = centres.Due(ctx, tx, every)
		return err
	})
	return c, err
}

// look looks at one centre.
func (w *Watcher) look(ctx context.Context, c centres.Centre) {
	limited, cancel := context.WithTimeoutCause(ctx, patient, fmt.Errorf("no answer within %s", patient))
	defer cancel()
	var seen view
	t, err := probe(c, w.Authority)
	if err == nil {
		seen, err = ask(limited, t)
	}
	if ctx.Err() != nil {
		return // this controller ends, which says nothing of the centre
	}
	why := ""
	if err != nil {
		why = Why(c, c.Probe, err)
	}
	err = w.DB.Update(ctx, func(tx *core.Tx) error {
		if why != "" {
			gone, err := centres.Lost(ctx, tx, c, why)
			if gone {
				tx.Log(core.Event{Type: "external-cluster.lost",
					Text: fmt.Sprintf("external cluster %s does not answer: %s", c.Name, why)})
			}
			return err
		}
		back, err := centres.Seen(ctx, tx, c, seen.system, seen.queues)
		if back {
			tx.Log(core.Event{Type: "external-cluster.answers",
				Text: fmt.Sprintf("external cluster %s answers: %s, queues: %d", c.Name, seen.system, len(seen.queues))})
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		w.Log.ErrorContext(ctx, "cannot store what a centre answered", "centre", c.Name, "error", err)
	}
}
