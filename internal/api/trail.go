package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/person"
	"muster/internal/kit/limit"
)

// How many rows one person can cause by requests that change something, and by those that read: so many at once, and then one
// each second, which is enough for scripts and less than 100 MB a day. A read that comes again within an hour causes none.
const (
	tracesAtOnce = 3000
	tracesEvery  = time.Second
	readsRepeat  = time.Hour
)

// trail is what the audit log is written from.
type trail struct {
	changes, reads limit.Pace

	mu        sync.Mutex
	seen      map[person.Entry]time.Time // when a read was written
	left      map[string]int             // by person: reads that were not written since the last one that was
	unwritten []person.Entry             // what the database has refused
}

// mostSeen bounds what is remembered of reads, and mostUnwritten what waits for the database.
const (
	mostSeen      = 1 << 16
	mostUnwritten = 1 << 14
)

func newTrail() *trail {
	return &trail{
		changes: limit.Pace{Kind: "requests that change or open something", Burst: tracesAtOnce, Every: tracesEvery},
		reads:   limit.Pace{Kind: "reads", Burst: tracesAtOnce, Every: tracesEvery},
		seen:    map[person.Entry]time.Time{}, left: map[string]int{},
	}
}

// ofRead is what is written about a read: nothing, if the same stands there already or its person has read too much that differs.
// How many were left out stands beside the next one that is written.
func (t *trail) ofRead(e person.Entry, now time.Time) []person.Entry {
	same := e
	same.ID, same.Request, same.Remote = "", "", limit.AddressOf(e.Remote).Key
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, known := t.seen[same]; known && now.Sub(at) < readsRepeat {
		return nil
	}
	if t.reads.More(e.Person, now) != nil {
		t.left[e.Person]++
		return nil
	}
	if len(t.seen) >= mostSeen {
		clear(t.seen)
	}
	t.seen[same] = now
	entries := []person.Entry{e}
	if n := t.left[e.Person]; n > 0 {
		delete(t.left, e.Person)
		e.ID, e.Action, e.Project, e.Object, e.Outcome = core.NewID("a"), "left-out", "", fmt.Sprintf("%d reads", n), ""
		entries = append(entries, e)
	}
	return entries
}

// write writes entries, and those that the database has refused before, and notes that a token is used. What it refuses now is
// kept.
func (t *trail) write(ctx context.Context, db *core.Store, token string, entries ...person.Entry) error {
	t.mu.Lock()
	waiting := t.unwritten
	t.unwritten = nil
	t.mu.Unlock()
	entries = append(waiting, entries...)
	err := db.Quietly(ctx, func(tx *core.Tx) error {
		for _, e := range entries {
			if err := person.Audit(ctx, tx, e); err != nil {
				return err
			}
		}
		return person.TouchToken(ctx, tx, token)
	})
	if err == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unwritten = append(entries, t.unwritten...); len(t.unwritten) > mostUnwritten {
		err = errors.Join(err, fmt.Errorf("%d entries are lost", len(t.unwritten)-mostUnwritten))
		t.unwritten = t.unwritten[:mostUnwritten]
	}
	return err
}

// settled says that all stands in the log, or why only root is answered: what could not be written down is not done.
func (a *API) settled(ctx context.Context) *apiv1.Problem {
	a.trail.mu.Lock()
	waits := len(a.trail.unwritten) > 0
	a.trail.mu.Unlock()
	if !waits || limit.IsReserved(ctx) || a.trail.write(ctx, a.DB, "") == nil {
		return nil
	}
	return problem(http.StatusServiceUnavailable, "the audit log cannot be written, so nothing is done",
		"an operator finds the reason in the controller's log; mostly the disk of the database is full")
}
