// Package externallife is the life of clusters that Muster did not build: again and again they are asked for their queues.
//
// What enters: rows of external clusters, and what those answer. What leaves: phases, with what was seen or why nothing was.
package externallife

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/external"
	"muster/internal/kinds/life"
)

const (
	every   = time.Minute      // how often an external cluster is asked
	patient = 30 * time.Second // how long it may take to answer; less than every

	noTurn = 5 * time.Second // how long one waits that has no turn
)

// Handlers are those of external clusters, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of external clusters: whatever was last seen of one, it is asked again.
func Table(d life.Deps) core.Table {
	w := Handlers{d}
	return core.StateTable[external.Cluster]{
		DB:   w.DB,
		Of:   external.Kind,
		Load: load,
		Phases: map[core.Phase]core.Handler[external.Cluster]{
			core.Pending:  {Do: w.ask},
			core.Ready:    {Do: w.ask},
			core.Degraded: {Do: w.ask},
		},
	}
}

// load finds an external cluster. One that was removed meanwhile has no phase, and nothing is done for it.
func load(ctx context.Context, tx *core.Tx, id string) (external.Cluster, core.Subject, error) {
	c, err := external.Get(ctx, tx, id)
	if errors.Is(err, core.ErrNotFound) {
		err = nil
	}
	return c, core.Subject{Life: c.Life}, err
}

func (w Handlers) ask(ctx context.Context, c external.Cluster) core.Outcome {
	leave, over := w.Asking.Enter("", false)
	if over != nil {
		return core.WaitFor(noTurn, "%s", c.Reason)
	}
	defer leave()
	limited, cancel := context.WithTimeoutCause(ctx, patient, fmt.Errorf("no answer within %s", patient))
	defer cancel()
	system, queues, err := w.External.Ask(limited, c)
	if err != nil {
		o := core.Advance(core.Degraded, "external cluster %s does not answer: %v", c.Name, err)
		o.After = every
		return o.With(func(ctx context.Context, tx *core.Tx) error { return external.SaveReached(ctx, tx, c) })
	}
	o := core.Advance(core.Ready, "external cluster %s answers: %s, queues: %d", c.Name, system, len(queues))
	o.After = every
	return o.With(func(ctx context.Context, tx *core.Tx) error { return external.SaveSeen(ctx, tx, c, system, queues) })
}
