package kinds

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/job"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/kinds/node/nodelife"
	"muster/internal/kinds/person"
	"muster/internal/kinds/snapshot"
	"muster/internal/kinds/snapshot/snapshotlife"
	"muster/internal/kit/clock"
)

// NewEngine makes the engine of one controller, with the lives of all kinds; owner names the controller among its replicas.
func NewEngine(owner string, d life.Deps, log *slog.Logger) *core.Engine {
	d = d.Watched()
	d.Turns, d.Calls = cmp.Or(d.Turns, life.Copying()), cmp.Or(d.Calls, life.Calling())
	d.Asking = cmp.Or(d.Asking, life.Asking())
	var tables []core.Table
	for _, k := range list() {
		if k.life == nil {
			continue
		}
		if table := k.life(d); table != nil {
			tables = append(tables, table)
		}
	}
	return core.NewEngine(d.DB, owner, tables, d.Telemetry, log)
}

// Sweep takes away what exists and is not wanted: remains of a controller that was fenced out or killed between two steps, and
// alarms that are over. It looks every interval until ctx ends. Nothing that is being made can fall to it, since a row is written
// before anything of it exists.
func Sweep(ctx context.Context, d life.Deps, every time.Duration, log *slog.Logger) {
	nodes, snapshots := nodelife.Handlers{Deps: d}, snapshotlife.Handlers{Deps: d}
	for ctx.Err() == nil {
		if err := errors.Join(nodes.Sweep(ctx, log), snapshots.Sweep(ctx, log)); err != nil && ctx.Err() == nil {
			log.Error("cannot look for leftovers", "error", err)
		}
		if err := d.ClearAlarms(ctx); err != nil && ctx.Err() == nil {
			log.Error("cannot check whether alarms have ended", "error", err)
		}
		_ = clock.Sleep(ctx, every)
	}
}

// Forget deletes what was kept for a while: answers for repeated requests, tokens that have ended, and trust in old keys; who did
// what, events, and what is gone, after keep; jobs that have ended, as the site has it; and how many there were, after a day.
// Call it now and then.
func Forget(ctx context.Context, tx *core.Tx, keep time.Duration, jobs inventory.Jobs) error {
	const day = 24 * time.Hour
	return errors.Join(person.ForgetAnswers(ctx, tx, day), person.ForgetTokens(ctx, tx, day), authority.ForgetTrust(ctx, tx),
		person.ForgetEntries(ctx, tx, keep), tx.ForgetEvents(ctx, keep), job.Forget(ctx, tx, jobs.Keep, jobs.PerProject),
		node.Forget(ctx, tx, keep), snapshot.Forget(ctx, tx, keep), cluster.Forget(ctx, tx, keep), forgetMoments(ctx, tx),
		host.ForgetAcknowledgements(ctx, tx))
}
