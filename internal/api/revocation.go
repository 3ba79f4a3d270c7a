package api

import (
	"context"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/person"
	"muster/internal/kit/clock"
)

// lookEvery is how often answers that last ask whether it has changed who may do what.
const lookEvery = time.Second

// lasting is a context for an answer that goes on: it ends when who asked may no longer do what they do. The token is
// looked up again, and still asked with what it lets its bearer do now, whenever access to the cluster ("": to the site)
// has changed, and when the token's time is over.
func (a *API) lasting(ctx context.Context, cluster string, still func(*core.Tx, access.Caller) (bool, error)) (context.Context,
	context.CancelFunc) {
	within, cancel := context.WithCancel(ctx)
	caller, ends := callerOf(ctx), askedOf(ctx).ends
	go func() {
		defer cancel()
		known := int64(-1) // it may have changed since the request was let in
		for {
			allowed := true
			err := a.DB.View(within, func(tx *core.Tx) error {
				revision, err := person.EntryRevision(within, tx, cluster)
				// a reason to look; the database's clock decides
				now := time.Now()
				over := !caller.Until.IsZero() && !now.Before(caller.Until) || !ends.IsZero() && !now.Before(ends)
				if err != nil || revision == known && !over {
					return err
				}
				who, err := a.still(within, tx, caller)
				if err == nil {
					allowed, err = still(tx, who)
				}
				known = revision
				return err
			})
			switch {
			case within.Err() != nil:
				return
			case isNotFound(err), err == nil && !allowed:
				a.Log.InfoContext(ctx, "an answer ends: who asked may no longer have it", "identity", caller.Name)
				return
			case err != nil: // no caller is thrown out because the database is away for a moment
				known = -1
				a.Log.WarnContext(ctx, "cannot look whether somebody may stay", "identity", caller.Name, "error", err)
			}
			if clock.Sleep(within, lookEvery) != nil {
				return
			}
		}
	}()
	return within, cancel
}

// still is who asked, with what they may do now; core.ErrNotFound if their token has ended, or their browser was signed out.
func (a *API) still(ctx context.Context, tx *core.Tx, asked access.Caller) (access.Caller, error) {
	if cookie := askedOf(ctx).cookie; cookie != "" {
		who, _, err := ofCookie(ctx, tx, cookie)
		return who, err
	}
	return person.Login(ctx, tx, asked.Token)
}
