package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/access"
	"muster/internal/admission"
	"muster/internal/kit/duration"
	"muster/internal/store"
)

// How long tokens live.
const (
	tokenLife    = 90 * 24 * time.Hour
	tokenLifeMax = 366 * 24 * time.Hour
)

// Token lets its bearer act as you.
type Token struct {
	ID        string          `json:"id"`
	Name      string          `json:"name" doc:"what it is for"`
	Kind      store.TokenKind `json:"kind" enum:"local,api,login"`
	Scope     access.Scope    `json:"scope" enum:"all,read"`
	Project   string          `json:"project,omitempty" doc:"the only one that it is for"`
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
	UsedAt    time.Time       `json:"used_at,omitzero" doc:"to the minute"`
	Token     string          `json:"token,omitempty" doc:"the token itself, told once: when it is made"`
}

func (a *API) registerTokens(api huma.API) {
	tags := []string{"access"}
	huma.Register(api, huma.Operation{OperationID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens", Summary: "List your tokens", Tags: tags}, a.listTokens)
	huma.Register(api, huma.Operation{OperationID: "add-token", Method: http.MethodPost, Path: "/v1/tokens", Summary: "Make a token that may do what you may, or less",
		DefaultStatus: http.StatusCreated, Errors: []int{403, 404, 409, 422}, Tags: tags}, a.addToken)
	huma.Register(api, huma.Operation{OperationID: "add-person-token", Method: http.MethodPost, Path: "/v1/people/{person}/tokens", Summary: "Make a token for somebody who cannot log in",
		DefaultStatus: http.StatusCreated, Errors: []int{403, 404, 409, 422}, Tags: []string{"people"}}, a.addPersonToken)
	huma.Register(api, huma.Operation{OperationID: "delete-token", Method: http.MethodDelete, Path: "/v1/tokens/{token}", Summary: "Revoke a token", Errors: []int{403, 404}, Tags: tags}, a.deleteToken)
}

type tokenOutput struct{ Body Token }

func tokenView(t store.Token) Token {
	return Token{ID: t.ID, Name: t.Name, Kind: t.Kind, Scope: t.Scope, Project: t.Project, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, UsedAt: t.UsedAt}
}

func (a *API) listTokens(ctx context.Context, in *Page) (*listOutput[Token], error) {
	out := &listOutput[Token]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		tokens, err := tx.Tokens(ctx, identityOf(ctx))
		var all []Token
		for _, t := range tokens {
			all = append(all, tokenView(t))
		}
		out.Body = pageOf(*in, all, func(t Token) string { return inOrder(t.CreatedAt) + t.ID })
		return err
	})
	return out, a.tell(err, nil)
}

// tokenMark begins every token, so that tools which look for leaked secrets can know one.
const tokenMark = "muster_"

// newToken makes a token: 256 random bits.
func newToken() string {
	var random [32]byte
	_, _ = rand.Read(random[:])
	return tokenMark + base64.RawURLEncoding.EncodeToString(random[:])
}

// NewToken is what is asked of a token.
type NewToken struct {
	Name    string       `json:"name" doc:"what it is for" minLength:"1" maxLength:"100"`
	Scope   access.Scope `json:"scope,omitempty" enum:"all,read" default:"all" doc:"read: it changes nothing and enters nowhere"`
	Project string       `json:"project,omitempty" doc:"the only one that it is to be for" maxLength:"63"`
	For     string       `json:"for,omitempty" doc:"how long it is good, as in 12h or 30d; 90d if left out, 366d at most" maxLength:"20"`
}

func (a *API) addToken(ctx context.Context, in *struct{ Body NewToken }) (*tokenOutput, error) {
	return a.makeToken(ctx, in.Body, identityOf(ctx))
}

// addPersonToken makes a token for somebody who has none and cannot log in. They see it among theirs, with who made it; the
// audit log and an event tell it too.
func (a *API) addPersonToken(ctx context.Context, in *struct {
	PersonRef
	Body NewToken
}) (*tokenOutput, error) {
	in.Body.Name += ", made by " + identityOf(ctx)
	return a.makeToken(ctx, in.Body, in.Person)
}

// mostTokens is how many tokens and logins one person may have that have not ended.
const mostTokens = 500

func (a *API) makeToken(ctx context.Context, b NewToken, person string) (*tokenOutput, error) {
	life := tokenLife
	if b.For != "" {
		var err error
		if life, err = duration.Within(b.For, time.Second, tokenLifeMax); err != nil {
			return nil, badDuration("for", err)
		}
	}
	text, out := newToken(), &tokenOutput{}
	t := store.Token{ID: admission.NewID("t"), Person: person, Name: b.Name, Kind: store.APIToken, Scope: b.Scope, Project: b.Project,
		ExpiresAt: callerOf(ctx).Until} // what a token makes does not outlive it
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		bearer, err := tx.Caller(ctx, person)
		if err != nil {
			return err
		}
		if b.Project != "" {
			if _, err := tx.Project(ctx, b.Project); err != nil || !bearer.May(access.See, b.Project) {
				return cmp.Or(err, fmt.Errorf("project %s: %w", b.Project, store.ErrNotFound))
			}
		}
		had, err := tx.Tokens(ctx, person)
		if err != nil {
			return err
		}
		if len(had) >= mostTokens {
			return problem(http.StatusConflict, "conflict", fmt.Sprintf("%s has %d tokens, which is all that one may have", person, len(had)),
				"`muster tokens list` shows them, `muster tokens revoke` ends some")
		}
		if err := tx.AddToken(ctx, store.HashToken(text), t, life); err != nil {
			return err
		}
		if person != identityOf(ctx) {
			tx.Log(store.Event{Type: "person.requested", Text: fmt.Sprintf("a token for %s, by %s", person, identityOf(ctx))})
		}
		tokens, err := tx.Tokens(ctx, person)
		for _, made := range tokens {
			if made.ID == t.ID {
				out.Body = tokenView(made)
			}
		}
		if err == nil && out.Body.ID == "" { // the caller's own ends in this moment
			return unauthorized()
		}
		out.Body.Token = text
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) deleteToken(ctx context.Context, in *struct {
	Token string `path:"token" doc:"its ID" maxLength:"63"`
}) (*struct{}, error) {
	err := a.DB.Update(ctx, func(tx *store.Tx) error { return tx.RemoveToken(ctx, identityOf(ctx), in.Token) })
	return nil, a.tell(err, nil)
}
