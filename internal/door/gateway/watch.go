package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/person"
	"muster/internal/kit/clock"
)

// What a person is told when they may no longer be there.
const (
	reasonKey   = "your key or your login is no longer valid"
	reasonOver  = "your login has ended; `muster login` begins another"
	reasonPlace = "you may no longer log in to "
)

// watch looks every moment who may still be where they are, and how much waits to be read, and ends what may not be.
func (g *Gateway) watch(ctx context.Context) {
	for clock.Sleep(ctx, g.Limits.Look) == nil {
		g.lookNow(ctx)
		g.clear(ctx)
	}
}

// lookNow looks at once. A place that ends a session may know sooner than the gateway that somebody may no longer be there.
func (g *Gateway) lookNow(ctx context.Context) {
	if err := g.look(ctx); err != nil && ctx.Err() == nil {
		g.Log.ErrorContext(ctx, "cannot check whose sessions may go on", "error", err)
	}
}

// look does it once. What each visit was checked against is kept with it, so that nothing that changed since is missed,
// however the change and the visit's beginning fell together.
func (g *Gateway) look(ctx context.Context) error {
	visits := g.visitors.list()
	if len(visits) == 0 {
		return nil
	}
	ends := map[*visit]string{}
	err := g.DB.View(ctx, func(tx *core.Tx) error {
		wanted, err := person.SessionsToEnd(ctx, tx, g.Name)
		if err != nil {
			return err
		}
		l := looker{g: g, tx: tx, people: map[string]verdict{}}
		if l.access, err = person.AccessRevision(ctx, tx); err != nil {
			return err
		}
		if l.revisions, err = cluster.Revisions(ctx, tx); err != nil {
			return err
		}
		if l.now, err = tx.Now(ctx); err != nil {
			return err
		}
		for _, v := range visits {
			reason, err := l.check(ctx, v, wanted)
			if err != nil {
				return err
			}
			if reason != "" {
				ends[v] = reason
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for v, reason := range ends {
		g.Log.InfoContext(ctx, "a session is ended", "person", v.who.caller.Name, "remote", v.server.RemoteAddr().String(), "why",
			reason)
		v.end(reason)
	}
	return nil
}

// looker is one look.
type looker struct {
	g         *Gateway
	tx        *core.Tx
	access    int64
	revisions map[string]int64
	now       time.Time
	people    map[string]verdict // by credential
}

// verdict is what somebody may enter now.
type verdict struct {
	gone   bool
	places map[string]bool // by kind, ID and project
}

func placeKey(kind, id, project string) string { return kind + " " + id + " " + project }

// check is why a visit has to end; "" if it may go on.
func (l *looker) check(ctx context.Context, v *visit, wanted map[string]string) (string, error) {
	if until := v.who.caller.Until; !until.IsZero() && !l.now.Before(until) {
		return reasonOver, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := v.checked != l.access
	for _, e := range v.open {
		if by, ok := wanted[e.row.ID]; ok {
			return "ended by " + by, nil
		}
		changed = changed || e.checked != l.access || e.place != l.revisions[e.row.PlaceID]
	}
	if !changed {
		return "", nil
	}
	now, err := l.judge(ctx, v.who)
	if err != nil {
		return "", err
	}
	if now.gone {
		return reasonKey, nil
	}
	v.checked = l.access
	for _, e := range v.open {
		if !now.places[placeKey(e.row.Kind, e.row.PlaceID, e.row.Project)] {
			return reasonPlace + e.row.Project + "/" + e.row.Place, nil
		}
		e.checked, e.place = l.access, l.revisions[e.row.PlaceID]
	}
	return "", nil
}

// judge is asked once a look for each key or login, however many connections came with it.
func (l *looker) judge(ctx context.Context, w who) (verdict, error) {
	if known, ok := l.people[w.credential()]; ok {
		return known, nil
	}
	v := verdict{places: map[string]bool{}}
	caller, err := callerOf(ctx, l.tx, w)
	if errors.Is(err, core.ErrNotFound) {
		v.gone, err = true, nil
	}
	if err != nil {
		return v, err
	}
	places, err := l.g.places(ctx, l.tx, caller, "")
	for _, p := range places {
		v.places[placeKey(p.Kind, p.ID, p.Project)] = true
	}
	l.people[w.credential()] = v
	return v, err
}

// Times of the gateway's housekeeping. A gateway whose sessions were not heard of for lostAfter has ended.
const (
	housekeepEvery = 10 * time.Second
	lostAfter      = 2 * time.Minute
	keepSessions   = 365 * 24 * time.Hour
)

// housekeep writes how far sessions have come, ends those of gateways that are lost, and takes new host keys over.
func (g *Gateway) housekeep(ctx context.Context) {
	for {
		err := g.DB.Quietly(ctx, func(tx *core.Tx) error {
			for _, v := range g.visitors.list() {
				v.mu.Lock()
				open := slices.Clone(v.open)
				v.mu.Unlock()
				for _, e := range open {
					if err := person.SaySession(ctx, tx, e.session()); err != nil {
						return err
					}
				}
			}
			return errors.Join(person.LoseSessions(ctx, tx, lostAfter), person.ForgetSessions(ctx, tx, keepSessions),
				authority.ForgetGatewayKeys(ctx, tx))
		})
		if err := errors.Join(err, g.loadKeys(ctx)); err != nil && ctx.Err() == nil {
			g.Log.ErrorContext(ctx, "the gateway cannot store its sessions, delete old ones or load its keys", "error", err)
		}
		if clock.Sleep(ctx, housekeepEvery) != nil {
			return
		}
	}
}
