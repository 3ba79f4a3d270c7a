package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/access"
	"muster/internal/environment/identity"
	"muster/internal/kit/duration"
	"muster/internal/store"
)

// Session is one connection through an SSH gateway to one place.
type Session struct {
	ID         string     `json:"id"`
	Person     string     `json:"person"`
	Credential string     `json:"credential" doc:"fingerprint of a key, or ID of a login"`
	Project    string     `json:"project"`
	Kind       string     `json:"kind" doc:"of the place: cluster or centre"`
	Place      string     `json:"place"`
	What       string     `json:"what" doc:"shell, exec, sftp, forward, jump; several with commas"`
	Remote     string     `json:"remote" doc:"address it came from"`
	BeganAt    time.Time  `json:"began_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty" doc:"absent while it is open"`
	Received   int64      `json:"received" doc:"bytes from the person; of an open session, some seconds ago"`
	Sent       int64      `json:"sent"`
	Outcome    string     `json:"outcome,omitempty" doc:"how it ended"`
	Recorded   bool       `json:"recorded,omitempty" doc:"what its terminals showed is kept"`
}

// Gateway is what people and their SSH clients have to know of the SSH gateway.
type Gateway struct {
	Address   string       `json:"address,omitempty" doc:"host:port; absent: this controller has none"`
	GatewayCA string       `json:"gateway_ca" doc:"signs the host certificates of gateways, authorized_keys format"`
	HostCA    string       `json:"host_ca" doc:"signs those of nodes, good for NODE.CLUSTER.PROJECT.muster and shorter"`
	Keys      []GatewayKey `json:"keys" doc:"the host key in use, then those that will follow it"`
	Account   string       `json:"account" doc:"the caller's on nodes"`
}

// GatewayKey is a host key of the gateways.
type GatewayKey struct {
	Line string    `json:"line" doc:"authorized_keys format"`
	From time.Time `json:"from" doc:"when it was or will be taken into use"`
}

func (a *API) registerSessions(api huma.API) {
	op := func(id, method, path, summary string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"access"}, Errors: append(errors, http.StatusForbidden)}
	}
	huma.Register(api, op("list-sessions", http.MethodGet, "/v1/sessions", "List sessions through the SSH gateway, newest first: all as an operator, those of your projects as their owner, and your own", 422), a.listSessions)
	huma.Register(api, op("end-session", http.MethodDelete, "/v1/sessions/{session}", "End a session of yours, or in a project of yours", 404), a.endSession)
	huma.Register(api, op("get-gateway", http.MethodGet, "/v1/gateway", "Show where the SSH gateway is and what it proves itself with"), a.getGateway)
	huma.Register(api, op("rotate-gateway-key", http.MethodPost, "/v1/gateway/rotate", "Make the gateways' next host key, which clients learn before it takes over", 409, 422), a.rotateGatewayKey)
}

func (a *API) listSessions(ctx context.Context, in *struct {
	Ended  bool   `query:"ended" doc:"those that have ended, too"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"how many at most"`
	Cursor string `query:"cursor" doc:"from the page before" maxLength:"200" pattern:"^([0-9]+-[a-z0-9-]+)?$"`
}) (*listOutput[Session], error) {
	of := store.SessionsOf{Ended: in.Ended, Limit: in.Limit}
	if at, id, ok := strings.Cut(in.Cursor, "-"); ok {
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, problem(http.StatusUnprocessableEntity, "invalid", "cursor: it is not of the page before", "")
		}
		of.Before, of.BeforeID = time.UnixMilli(ms), id
	}
	if c := callerOf(ctx); !c.Everywhere() {
		of.Projects, of.Person, of.Within = owned(c), c.Name, c.Project
	}
	out := &listOutput[Session]{List[Session]{Items: []Session{}}}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		sessions, err := tx.Sessions(ctx, of)
		for _, s := range sessions {
			view := Session{s.ID, s.Person, s.Credential, s.Project, s.Kind, s.Place, s.What, s.Remote, s.BeganAt, nil, s.Received, s.Sent, s.Outcome, s.Recorded}
			if !s.EndedAt.IsZero() {
				view.EndedAt = &s.EndedAt
			}
			out.Body.Items = append(out.Body.Items, view)
		}
		if n := len(sessions); n == in.Limit {
			last := sessions[n-1]
			out.Body.Next = strconv.FormatInt(last.BeganAt.UnixMilli(), 10) + "-" + last.ID
		}
		return err
	})
	return out, a.tell(err, nil)
}

// endSession is an act of govern, or of the person whose session it is.
func (a *API) endSession(ctx context.Context, in *struct {
	Session string `path:"session" doc:"ID" maxLength:"40"`
}) (*struct{}, error) {
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		s, err := tx.Session(ctx, in.Session)
		if err != nil {
			return err
		}
		caller := callerOf(ctx)
		if own := s.Person == caller.Name && caller.Scope != access.ReadOnly && caller.May(access.Be, s.Project); !own && !caller.May(access.Govern, s.Project) {
			return fmt.Errorf("session %s: %w", in.Session, store.ErrNotFound)
		}
		askedOf(ctx).project = s.Project
		return tx.WantSessionEnded(ctx, s.ID, caller.Name)
	})
	return nil, a.tell(err, nil)
}

type gatewayOutput struct{ Body Gateway }

func (a *API) gatewayView(ctx context.Context, tx *store.Tx) (Gateway, error) {
	view := Gateway{Address: a.SSH, GatewayCA: a.Authority.GatewayCA(), HostCA: a.Authority.HostCA(), Account: identityOf(ctx), Keys: []GatewayKey{}}
	keys, err := tx.GatewayKeys(ctx)
	for _, k := range keys {
		view.Keys = append(view.Keys, GatewayKey{k.Line, k.From})
	}
	return view, err
}

func (a *API) getGateway(ctx context.Context, _ *struct{}) (*gatewayOutput, error) {
	out := &gatewayOutput{}
	err := a.DB.View(ctx, func(tx *store.Tx) (err error) {
		out.Body, err = a.gatewayView(ctx, tx)
		return err
	})
	return out, a.tell(err, nil)
}

// Bounds of the time between the announcement of a host key and its use: clients that come in between learn it.
const (
	soonestKey = time.Minute
	latestKey  = 365 * 24 * time.Hour
)

func (a *API) rotateGatewayKey(ctx context.Context, in *struct {
	After string `query:"after" default:"7d" doc:"how long the next key is announced before it takes over, as in 12h or 7d" maxLength:"20"`
}) (*gatewayOutput, error) {
	after, err := duration.Within(in.After, soonestKey, latestKey)
	if err != nil {
		return nil, badDuration("after", err)
	}
	line, private, err := identity.NewHostKey()
	if err != nil {
		return nil, a.tell(err, nil)
	}
	out := &gatewayOutput{}
	err = a.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if out.Body, err = a.gatewayView(ctx, tx); err != nil {
			return err
		}
		if n := len(out.Body.Keys); n > 1 {
			return problem(http.StatusConflict, "conflict", "there is a next key already: it takes over at "+out.Body.Keys[n-1].From.UTC().Format(time.RFC3339), "wait until then")
		}
		if err := tx.AddGatewayKey(ctx, store.GatewayKey{Line: line, Private: store.NewSecret([]byte(private))}, after); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "gateway.requested", Text: fmt.Sprintf("the gateway's host key changes in %s, by %s", after, identityOf(ctx))})
		out.Body, err = a.gatewayView(ctx, tx)
		return err
	})
	return out, a.tell(err, nil)
}
