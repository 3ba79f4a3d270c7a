// Package lifecycle makes intent true: it alone moves clusters, nodes and machines from phase to phase, one table of
// phase → handler for each kind (cluster.go, node.go, machine.go).
//
// What enters: intent and observations, as rows. What leaves: calls of the substrate, new phases, and an event for
// every change. A handler is idempotent, does one step and returns; it may be run again at any time, after any crash, by
// any replica. Two controllers never work on one row: each claims it, under a lease, with a fence that every commit
// checks.
package lifecycle

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muster/internal/core"
	"muster/internal/telemetry"
)

// Timing of the engine. The lease bounds how long a dead controller's work waits; it is renewed well before its end.
const (
	lease   = 3 * time.Second
	renewal = lease / 4
	poll    = 250 * time.Millisecond // wake-ups of this process come at once, those of other replicas by polling
	quiet   = 500 * time.Millisecond // between two looks at most, where there are no other replicas
	workers = 128                    // handlers at a time; they mostly wait, and drivers bound what they do at once
)

// table is the life of one kind.
type table interface {
	kind() core.Kind
	// step loads the claimed row, runs its phase's handler and returns the outcome with the row it was made for. For traces it
	// also looks up the request behind it.
	step(ctx context.Context, c core.Claim, traces bool) (subject, Outcome, error)
}

// subject is the row an outcome belongs to.
type subject struct {
	life    core.Life
	event   core.Event // names of who it is, for the log
	op      string     // the operation that it is part of: its cluster and that one's generation
	request string     // that asked for it; only known when somebody follows traces
	now     time.Time  // when it was loaded
}

// phase is one row of a table.
type phase[E any] struct {
	handle   func(context.Context, E) Outcome
	deadline func(E) time.Time // when it must be over; nil: it is a place to stay
	late     func(E) Outcome   // the exit when the deadline has passed
}

// stateTable is the table of one kind.
type stateTable[E any] struct {
	db     *core.Store
	of     core.Kind
	load   func(ctx context.Context, tx *core.Tx, id string) (E, subject, error)
	phases map[core.Phase]phase[E]
}

func (c stateTable[E]) kind() core.Kind { return c.of }

func (c stateTable[E]) step(ctx context.Context, claim core.Claim, traces bool) (subject, Outcome, error) {
	var entity E
	var s subject
	var now time.Time
	err := c.db.View(ctx, func(tx *core.Tx) (err error) {
		if now, err = tx.Now(ctx); err == nil {
			entity, s, err = c.load(ctx, tx, claim.ID)
		}
		if s.now = now; err == nil && traces {
			s.request, err = causeOf(ctx, tx, s.event.ClusterID)
		}
		return err
	})
	if err != nil {
		return s, Outcome{}, err
	}
	p, known := c.phases[s.life.Phase]
	if !known {
		return s, rest(), nil
	}
	if p.deadline != nil && now.After(p.deadline(entity)) {
		o := p.late(entity)
		o.late = true
		return s, o, nil
	}
	return s, p.handle(ctx, entity), nil
}

// Engine runs the tables of one controller.
type Engine struct {
	db     *core.Store
	owner  string
	log    *slog.Logger
	tell   *telemetry.Telemetry
	tables []table
	kinds  []core.Kind   // of the tables
	looked atomic.Int64  // when it last looked for work, in Unix nanoseconds
	busy   chan struct{} // one token a running handler
}

// New makes the engine of one controller; owner names the controller among its replicas.
func New(owner string, w Deps, log *slog.Logger) *Engine {
	w = w.watched()
	e := &Engine{
		db: w.DB, owner: owner, log: log, tell: w.Telemetry, busy: make(chan struct{}, workers),
		tables: []table{w.clusters(), w.nodes(), w.machines(), w.snapshots(), w.tasks()},
	}
	if w.Fabrics != nil {
		e.tables = append(e.tables, w.fabrics())
	}
	for _, t := range e.tables {
		e.kinds = append(e.kinds, t.kind())
	}
	return e
}

// Run works until ctx ends, then waits for the handlers it has begun, whose contexts have ended too, and lets go of what
// they held.
func (e *Engine) Run(ctx context.Context) error {
	if !e.db.Shared() {
		if err := e.db.ReleaseLeases(ctx, ""); err != nil && ctx.Err() == nil {
			return err
		}
	}
	var handlers sync.WaitGroup
	handlers.Go(func() { e.keepLeases(ctx) })
	for ctx.Err() == nil {
		changed := e.db.Changed()
		pause := e.dispatch(ctx, &handlers)
		if pause == 0 {
			continue
		}
		select {
		case <-changed:
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	handlers.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease)
	defer cancel()
	return e.db.ReleaseLeases(last, e.owner)
}

// dispatch claims what is due and starts its handlers. It returns how long there is nothing to do unless something is
// committed; zero: there may be more now.
func (e *Engine) dispatch(ctx context.Context, handlers *sync.WaitGroup) time.Duration {
	defer func() { e.looked.Store(time.Now().UnixNano()) }()
	if len(e.busy) == cap(e.busy) {
		return quiet // the end of a handler is a commit, which wakes Run
	}
	due, next, err := e.db.Due(ctx, e.kinds)
	if err != nil {
		if ctx.Err() == nil {
			e.log.Error("cannot look for work", "error", err)
		}
		return poll
	}
	claimed := 0
	for _, t := range e.tables {
		if !slices.Contains(due, t.kind()) {
			continue
		}
		room := cap(e.busy) - len(e.busy)
		if room == 0 {
			return quiet
		}
		claims, err := e.db.Claim(ctx, t.kind(), e.owner, lease, room)
		if err != nil {
			if ctx.Err() == nil {
				e.log.Error("cannot look for work", "kind", t.kind(), "error", err)
			}
			return poll
		}
		claimed += len(claims)
		for _, claim := range claims {
			e.busy <- struct{}{}
			handlers.Go(func() {
				defer func() { <-e.busy }()
				e.work(ctx, t, claim)
			})
		}
	}
	switch {
	case claimed > 0:
		return 0 // when the next one is due is not known yet
	case len(due) > 0:
		return poll // another replica was faster
	}
	return e.pause(next)
}

// pause is how long Run waits for commits: until the next row is due, and no longer than what it cannot hear of may wait,
// which is what other replicas commit, and rows whose lease ends.
func (e *Engine) pause(next time.Duration) time.Duration {
	longest := quiet
	if e.db.Shared() {
		longest = poll
	}
	if next < 0 {
		return longest
	}
	return min(next+time.Millisecond, longest)
}

// work runs one handler and writes its outcome.
func (e *Engine) work(ctx context.Context, t table, claim core.Claim) {
	began := time.Now()
	trail := e.tell.Trail(ctx)
	s, outcome, err := t.step(trail, claim, e.tell.Tracing())
	settlement := settle(s, outcome)
	if err == nil {
		err = e.commit(ctx, claim, s, outcome, settlement)
	}
	if ctx.Err() == nil || err == nil {
		e.report(trail, claim, s, outcome, settlement, began, err)
	}
}

// settle is what an outcome makes of the row that it was made for.
func settle(s subject, o Outcome) core.Settlement {
	settlement := core.Settlement{Phase: s.life.Phase, Reason: o.text, After: o.after, Never: o.asleep}
	if o.phase != "" {
		settlement.Phase = o.phase
	}
	if o.text == "" {
		settlement.Reason = s.life.Reason
	}
	if o.err != nil {
		settlement.Failures = s.life.Attempts + 1
		settlement.After = backoff(settlement.Failures)
	}
	return settlement
}

func (e *Engine) commit(ctx context.Context, claim core.Claim, s subject, o Outcome, settlement core.Settlement) error {
	return e.db.Update(ctx, func(tx *core.Tx) error {
		if err := tx.Hold(ctx, claim); err != nil {
			return err
		}
		for _, f := range o.also {
			if err := f(ctx, tx); err != nil {
				return err
			}
		}
		if err := tx.Settle(ctx, claim, settlement); err != nil || settlement.Phase == s.life.Phase {
			return err
		}
		event := s.event
		event.Type, event.Phase, event.Text = string(claim.Kind)+".phase", settlement.Phase, o.text
		return tx.LogPhase(ctx, claim, event)
	})
}

// keepLeases renews what this controller holds until ctx ends.
func (e *Engine) keepLeases(ctx context.Context) {
	ticks := time.NewTicker(renewal)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if len(e.busy) == 0 {
				continue
			}
			if _, err := e.db.Renew(ctx, e.owner, lease); err != nil && ctx.Err() == nil {
				e.log.Error("cannot renew leases", "error", err)
			}
		}
	}
}
