package core

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muster/internal/core/telemetry"
)

// Timing of the engine. The lease bounds how long a dead controller's work waits; it is renewed well before its end.
const (
	lease   = 3 * time.Second
	renewal = lease / 4
	poll    = 250 * time.Millisecond // wake-ups of this process come at once, those of other replicas by polling
	quiet   = 500 * time.Millisecond // between two looks at most, where there are no other replicas
	workers = 128                    // handlers at a time; they mostly wait, and drivers bound what they do at once
)

// Table is the life of one kind.
type Table interface {
	kind() Kind
	handled() []Phase // that have a handler
	// step loads the claimed row, runs its phase's handler and returns the outcome with the row it was made for. For traces it
	// also looks up the request behind it.
	step(ctx context.Context, c Claim, traces bool) (Subject, Outcome, error)
}

// Subject is the row an outcome belongs to.
type Subject struct {
	Life    Life
	Event   Event     // names of who it is, for the log
	Op      string    // the operation that it is part of: its cluster and that one's generation
	request string    // that asked for it; only known when somebody follows traces
	now     time.Time // when it was loaded
}

// paid is ctx for what is done for the row: of a project's it is the project that causes it.
func (s Subject) paid(ctx context.Context) context.Context {
	if s.Event.Project == "" {
		return ctx
	}
	return For(ctx, OfProject(s.Event.Project))
}

// Handler is one row of a table.
type Handler[E any] struct {
	Do       func(context.Context, E) Outcome
	Deadline func(E) time.Time // when it must be over; nil: it is a place to stay
	Late     func(E) Outcome   // the exit when the deadline has passed
}

// StateTable is the table of one kind.
type StateTable[E any] struct {
	DB     *Store
	Of     Kind
	Load   func(ctx context.Context, tx *Tx, id string) (E, Subject, error)
	Phases map[Phase]Handler[E]
}

func (c StateTable[E]) kind() Kind { return c.Of }

func (c StateTable[E]) handled() []Phase { return slices.Collect(maps.Keys(c.Phases)) }

func (c StateTable[E]) step(ctx context.Context, claim Claim, traces bool) (Subject, Outcome, error) {
	var entity E
	var s Subject
	var now time.Time
	err := c.DB.View(ctx, func(tx *Tx) (err error) {
		if now, err = tx.Now(ctx); err == nil {
			entity, s, err = c.Load(ctx, tx, claim.ID)
		}
		if s.now = now; err == nil && traces {
			s.request, err = causeOf(ctx, tx, s.Event.ClusterID)
		}
		return err
	})
	if err != nil {
		return s, Outcome{}, err
	}
	p, known := c.Phases[s.Life.Phase]
	if !known {
		return s, Rest(), nil
	}
	ctx = s.paid(ctx)
	if p.Deadline != nil && now.After(p.Deadline(entity)) {
		o := p.Late(entity)
		o.late = true
		return s, o, nil
	}
	return s, p.Do(ctx, entity), nil
}

// Engine runs the tables of one controller: it makes intent true, and it alone moves rows from phase to phase. A handler is
// idempotent, does one step and returns; it may be run again at any time, after any crash, by any replica. Two controllers never
// work on one row: each claims it, under a lease, with a fence that every commit checks.
type Engine struct {
	db     *Store
	owner  string
	log    *slog.Logger
	tell   *telemetry.Telemetry
	tables []Table
	kinds  []Kind       // of the tables
	looked atomic.Int64 // when it last looked for work, in Unix nanoseconds

	mu   sync.Mutex
	held map[Claim]bool // what handlers work on, at most workers; the lease of nothing else is prolonged
}

// NewEngine makes the engine of one controller, which owner names among its replicas, with a table for each kind that it works
// on.
func NewEngine(db *Store, owner string, tables []Table, tell *telemetry.Telemetry, log *slog.Logger) *Engine {
	e := &Engine{db: db, owner: owner, log: log, tell: tell, tables: tables, held: map[Claim]bool{}}
	for _, t := range tables {
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
	if e.works() == workers {
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
		room := workers - e.works()
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
			e.hold(claim, true)
			handlers.Go(func() {
				defer e.hold(claim, false)
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
func (e *Engine) work(ctx context.Context, t Table, claim Claim) {
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
func settle(s Subject, o Outcome) Settlement {
	settlement := Settlement{Phase: s.Life.Phase, Reason: o.Text, After: o.After, Never: o.Asleep}
	if o.Phase != "" {
		settlement.Phase = o.Phase
	}
	if o.Text == "" {
		settlement.Reason = s.Life.Reason
	}
	if o.Err != nil {
		settlement.Failures = s.Life.Attempts + 1
		settlement.After = backoff(settlement.Failures)
	}
	return settlement
}

func (e *Engine) commit(ctx context.Context, claim Claim, s Subject, o Outcome, settlement Settlement) error {
	return e.db.Update(s.paid(ctx), func(tx *Tx) error {
		if err := tx.Hold(ctx, claim); err != nil {
			return err
		}
		for _, f := range o.also {
			if err := f(ctx, tx); err != nil {
				return err
			}
		}
		if err := tx.Settle(ctx, claim, settlement); err != nil || settlement.Phase == s.Life.Phase {
			return err
		}
		event := s.Event
		event.Type, event.Phase, event.Text = string(claim.Kind)+".phase", settlement.Phase, o.Text
		return tx.LogPhase(ctx, claim, event)
	})
}

// hold notes that a handler works on a row, or does no more.
func (e *Engine) hold(c Claim, works bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if works {
		e.held[c] = true
	} else {
		delete(e.held, c)
	}
}

// works is how many handlers there are at work.
func (e *Engine) works() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.held)
}

// keepLeases renews, until ctx ends, the leases of what handlers work on. That of a step which was lost ends: it is done again.
func (e *Engine) keepLeases(ctx context.Context) {
	ticks := time.NewTicker(renewal)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			e.mu.Lock()
			held := slices.Collect(maps.Keys(e.held))
			e.mu.Unlock()
			if len(held) == 0 {
				continue
			}
			if _, err := e.db.Renew(For(ctx, "leases"), e.owner, held, lease); err != nil && ctx.Err() == nil {
				e.log.Error("cannot renew leases", "error", err)
			}
		}
	}
}

// Step runs the handlers of all rows of one kind that are due, one after the other, instead of Run: for simulations that want an
// order. lost is asked after each step; where it says true, the step is not committed, as if the controller had been killed
// just before.
func (e *Engine) Step(ctx context.Context, kind Kind, lost func() bool) error {
	for _, t := range e.tables {
		if t.kind() != kind {
			continue
		}
		claims, err := e.db.Claim(ctx, kind, e.owner, lease, workers)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			s, outcome, err := t.step(ctx, claim, false)
			if err != nil {
				return fmt.Errorf("%s %s: %w", kind, claim.ID, err)
			}
			if lost() {
				continue
			}
			if err := e.commit(ctx, claim, s, outcome, settle(s, outcome)); err != nil {
				return fmt.Errorf("%s %s: %w", kind, claim.ID, err)
			}
		}
	}
	return e.db.ReleaseLeases(ctx, e.owner)
}

// Handled lists which phases of each kind have a handler.
func (e *Engine) Handled() map[Kind][]Phase {
	all := map[Kind][]Phase{}
	for _, t := range e.tables {
		all[t.kind()] = t.handled()
	}
	return all
}
