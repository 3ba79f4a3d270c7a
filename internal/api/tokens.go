package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/person"
	"muster/internal/kit/duration"
)

// How long tokens live.
const (
	tokenLife    = 90 * 24 * time.Hour
	tokenLifeMax = 366 * 24 * time.Hour
)

func tokenView(t person.Token) apiv1.Token {
	return apiv1.Token{ID: t.ID, Name: t.Name, Kind: apiv1.TokenKind(t.Kind), Scope: apiv1.Scope(t.Scope), Project: t.Project,
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, UsedAt: t.UsedAt}
}

func (a *API) listTokens(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Token]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Token]) error {
		tokens, err := person.Tokens(ctx, tx, identityOf(ctx))
		*out = pagedAs(*in, tokens, func(t person.Token) string { return inOrder(t.CreatedAt) + t.ID }, tokenView)
		return err
	})
}

// tokenMark begins every token, so that tools which look for leaked secrets can know one.
const tokenMark = "muster_"

// newToken makes a token: 256 random bits.
func newToken() string {
	var random [32]byte
	_, _ = rand.Read(random[:])
	return tokenMark + base64.RawURLEncoding.EncodeToString(random[:])
}

func (a *API) addToken(ctx context.Context, in *apiv1.AddTokenInput) (*output[apiv1.Token], error) {
	return a.makeToken(ctx, in.Body, identityOf(ctx))
}

// addPersonToken makes a token for somebody who has none and cannot log in. They see it among theirs, with who made it; the
// audit log and an event tell it too.
func (a *API) addPersonToken(ctx context.Context, in *apiv1.AddPersonTokenInput) (*output[apiv1.Token], error) {
	in.Body.Name += ", made by " + identityOf(ctx)
	return a.makeToken(ctx, in.Body, in.Person)
}

// mostTokens is how many tokens and logins one person may have that have not ended.
const mostTokens = 500

func (a *API) makeToken(ctx context.Context, b apiv1.NewToken, name string) (*output[apiv1.Token], error) {
	life := tokenLife
	if b.For != "" {
		var err error
		if life, err = duration.Within(b.For, time.Second, tokenLifeMax); err != nil {
			return nil, badDuration("for", err)
		}
	}
	text := newToken()
	t := person.Token{ID: core.NewID("t"), Person: name, Name: b.Name, Kind: person.APIToken, Scope: access.Scope(b.Scope),
		Project:   b.Project,
		ExpiresAt: callerOf(ctx).Until} // what a token makes does not outlive it
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Token) error {
		bearer, err := person.CallerOf(ctx, tx, name)
		if err != nil {
			return err
		}
		if b.Project != "" {
			if _, err := person.GetProject(ctx, tx, b.Project); err != nil || !bearer.May(access.See, b.Project) {
				return cmp.Or(err, fmt.Errorf("project %s: %w", b.Project, core.ErrNotFound))
			}
		}
		had, err := person.Tokens(ctx, tx, name)
		if err != nil {
			return err
		}
		if len(had) >= mostTokens {
			return conflict(fmt.Sprintf("%s has %d tokens, the most that one person may have", name, len(had)),
				"`muster tokens list` shows them, `muster tokens revoke` ends some")
		}
		if err := person.AddToken(ctx, tx, person.HashToken(text), t, life); err != nil {
			return err
		}
		if name != identityOf(ctx) {
			tx.Log(core.Event{Type: "person.requested", Text: fmt.Sprintf("a token for %s, by %s", name, identityOf(ctx))})
		}
		tokens, err := person.Tokens(ctx, tx, name)
		for _, made := range tokens {
			if made.ID == t.ID {
				*out = tokenView(made)
			}
		}
		if err == nil && out.ID == "" { // the caller's own ends in this moment
			return unauthorized()
		}
		out.Token = text
		return err
	})
}

func (a *API) deleteToken(ctx context.Context, in *apiv1.DeleteTokenInput) (*output[apiv1.Nothing], error) {
	err := a.DB.Update(ctx, func(tx *core.Tx) error { return person.RemoveToken(ctx, tx, identityOf(ctx), in.Token) })
	return nil, err
}
