package api

import (
	"context"
	"fmt"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/person"
	"muster/internal/kit/duration"
)

func (a *API) listSessions(ctx context.Context, in *apiv1.ListSessionsInput) (*output[apiv1.List[apiv1.Session]], error) {
	of := person.SessionsOf{Ended: in.Ended, Limit: in.Limit}
	var err error
	if of.Before, of.BeforeID, err = placeAt(in.Cursor); err != nil {
		return nil, err
	}
	if c := callerOf(ctx); !c.Everywhere() {
		of.Projects, of.Person, of.Within = owned(c), c.Name, c.Project
	}
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Session]) error {
		sessions, err := person.Sessions(ctx, tx, of)
		out.Items = some(each(sessions, func(s person.Session) apiv1.Session {
			return apiv1.Session{ID: s.ID, Person: s.Person, Credential: s.Credential, Project: s.Project, Kind: s.Kind,
				Place: s.Place, What: s.What, Remote: s.Remote, BeganAt: s.BeganAt, EndedAt: instant(s.EndedAt),
				Received: s.Received, Sent: s.Sent, Outcome: s.Outcome, Recorded: s.Recorded}
		}))
		if n := len(sessions); n == in.Limit {
			last := sessions[n-1]
			out.Next = cursor(last.BeganAt, last.ID)
		}
		return err
	})
}

// endSession is an act of govern, or of the person whose session it is.
func (a *API) endSession(ctx context.Context, in *apiv1.EndSessionInput) (*output[apiv1.Nothing], error) {
	err := a.DB.Update(ctx, func(tx *core.Tx) error {
		s, err := person.GetSession(ctx, tx, in.Session)
		if err != nil {
			return err
		}
		caller := callerOf(ctx)
		if own := s.Person == caller.Name && caller.Scope != access.ReadOnly && caller.May(access.Be, s.Project); !own &&
			!caller.May(access.Govern, s.Project) {
			return fmt.Errorf("session %s: %w", in.Session, core.ErrNotFound)
		}
		askedOf(ctx).project = s.Project
		return person.WantSessionEnded(ctx, tx, s.ID, caller.Name)
	})
	return nil, err
}

func (a *API) gatewayView(ctx context.Context, tx *core.Tx) (apiv1.Gateway, error) {
	view := apiv1.Gateway{Address: a.SSH, GatewayCA: a.Authority.GatewayCA(), HostCA: a.Authority.HostCA(),
		Account: identityOf(ctx)}
	keys, err := authority.GatewayKeys(ctx, tx)
	view.Keys = some(each(keys, func(k authority.GatewayKey) apiv1.GatewayKey {
		return apiv1.GatewayKey{Line: k.Line, From: k.From}
	}))
	return view, err
}

func (a *API) getGateway(ctx context.Context, _ *apiv1.Nothing) (*output[apiv1.Gateway], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Gateway) (err error) {
		*out, err = a.gatewayView(ctx, tx)
		return err
	})
}

// Bounds of the time between the announcement of a host key and its use: clients that come in between learn it.
const (
	soonestKey = time.Minute
	latestKey  = 365 * 24 * time.Hour
)

func (a *API) rotateGatewayKey(ctx context.Context, in *apiv1.RotateGatewayKeyInput) (*output[apiv1.Gateway], error) {
	after, err := duration.Within(in.After, soonestKey, latestKey)
	if err != nil {
		return nil, badDuration("after", err)
	}
	line, private, err := identity.NewHostKey()
	if err != nil {
		return nil, err
	}
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Gateway) (err error) {
		if *out, err = a.gatewayView(ctx, tx); err != nil {
			return err
		}
		if n := len(out.Keys); n > 1 {
			return conflict("a next key is announced already: it takes over at "+
				out.Keys[n-1].From.UTC().Format(time.RFC3339), "wait until then")
		}
		if err := authority.AddGatewayKey(ctx, tx, authority.GatewayKey{Line: line, Private: core.NewSecret([]byte(private))},
			after); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "gateway.requested", Text: fmt.Sprintf("the gateway's host key changes in %s, by %s", after,
			identityOf(ctx))})
		*out, err = a.gatewayView(ctx, tx)
		return err
	})
}
