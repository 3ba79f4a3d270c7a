package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/door/console"
	"muster/internal/door/web"
	"muster/internal/kinds/person"
)

// How long an address is good that signs a browser in to the console, once, and how long the browser stays signed in, at most.
const (
	consoleCodeLife = 10 * time.Minute
	consoleLife     = 12 * time.Hour
)

func (a *API) openConsole(ctx context.Context, _ *apiv1.Nothing) (*output[apiv1.ConsoleOpened], error) {
	code := web.NewCode()
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.ConsoleOpened) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		*out = apiv1.ConsoleOpened{Path: console.SignIn(code), ExpiresAt: now.Add(consoleCodeLife)}
		return person.AddWebLogin(ctx, tx, person.HashToken(code), person.WebLogin{Token: callerOf(ctx).Token}, consoleCodeLife)
	})
}

// signIn gives a browser a cookie for a token, for a code, or for what a provider says of who sits before it.
func (a *API) signIn(ctx context.Context, in *apiv1.SignInInput) (*output[apiv1.SignedIn], error) {
	asked := askedOf(ctx)
	asked.console = true
	cookie, out := web.NewCode(), &output[apiv1.SignedIn]{}
	var who access.Caller
	var left time.Duration
	replaced := console.CookieOf(asked.request()) // "", or one that has ended, ends nothing
	enter, err := a.entitled(ctx, in.Body)
	if err != nil {
		return nil, unsigned(in.Body, err)
	}
	err = a.DB.Update(ctx, func(tx *core.Tx) error {
		code, err := enter(ctx, tx)
		if err != nil {
			return err
		}
		if err := person.UseWebCode(ctx, tx, person.HashToken(code), person.HashToken(cookie), consoleLife); err != nil {
			return err
		}
		if who, left, err = ofCookie(ctx, tx, person.HashToken(cookie)); err != nil { // also if the code is an app's
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		out.Body = apiv1.SignedIn{Person: who.Name, ExpiresAt: now.Add(left)}
		return errors.Join(person.EndWebLogin(ctx, tx, person.HashToken(replaced)), person.TouchToken(ctx, tx, who.Token))
	})
	if err != nil {
		return nil, unsigned(in.Body, err)
	}
	asked.identity, asked.token = who.Name, who.Token
	asked.keeps(console.Cookie(cookie, left))
	return out, nil
}

// entry is how a credential becomes the code of a web login.
type entry func(ctx context.Context, tx *core.Tx) (code string, err error)

// entitled says whether a credential would do, and what it is then. Strangers make no one wait who writes.
func (a *API) entitled(ctx context.Context, c apiv1.Credential) (entry, error) {
	switch c {
	case apiv1.Credential{}:
	case apiv1.Credential{Token: c.Token}:
		enter := enterAs(func(ctx context.Context, tx *core.Tx) (access.Caller, error) {
			return person.Bearer(ctx, tx, person.HashToken(c.Token))
		})
		return enter, a.DB.View(ctx, func(tx *core.Tx) error {
			_, err := person.Bearer(ctx, tx, person.HashToken(c.Token))
			return err
		})
	case apiv1.Credential{Code: c.Code}:
		enter := func(context.Context, *core.Tx) (string, error) { return c.Code, nil }
		return enter, a.DB.View(ctx, func(tx *core.Tx) error {
			is, err := person.IsWebCode(ctx, tx, person.HashToken(c.Code))
			if err == nil && !is {
				err = core.ErrNotFound
			}
			return err
		})
	case apiv1.Credential{Provider: c.Provider}:
		if a.Login == nil {
			return nil, noLogin()
		}
		who, err := a.prove(ctx, "", *c.Provider)
		return enterAs(func(ctx context.Context, tx *core.Tx) (access.Caller, error) {
			caller, _, err := a.letIn(ctx, tx, who, "login of a browser", person.Bearerless(), min(who.site.For, consoleLife))
			return caller, err
		}), err
	}
	return nil, invalid("give one of token, code and provider", "")
}

// enterAs is the entry of a token; caller is its bearer.
func enterAs(caller func(context.Context, *core.Tx) (access.Caller, error)) entry {
	return func(ctx context.Context, tx *core.Tx) (string, error) {
		who, err := caller(ctx, tx)
		if err != nil {
			return "", err
		}
		code := web.NewCode()
		return code, person.AddWebLogin(ctx, tx, person.HashToken(code), person.WebLogin{Token: who.Token}, consoleCodeLife)
	}
}

// unsigned tells a browser why it is not signed in: what was not found is its credential.
func unsigned(c apiv1.Credential, err error) error {
	if !isNotFound(err) {
		return err
	}
	if c.Token != "" {
		return problem(http.StatusUnauthorized, "this is no valid token", "`muster tokens add` makes one")
	}
	return problem(http.StatusUnauthorized, "this address has been used, or is too old",
		"`muster console` makes another one")
}

func (a *API) signOut(ctx context.Context, in *apiv1.SignOutInput) (*output[apiv1.Nothing], error) {
	asked := askedOf(ctx)
	err := a.DB.Update(ctx, func(tx *core.Tx) error {
		if in.All {
			return person.EndBrowsers(ctx, tx, identityOf(ctx))
		}
		return person.EndWebLogin(ctx, tx, person.HashToken(console.CookieOf(asked.request())))
	})
	if err == nil {
		asked.keeps(console.Cookie("", 0))
	}
	return nil, err
}

// foreign refuses a request of another site's page.
func foreign() *apiv1.Problem {
	return forbidden("another site's page may not do this", "open the console by its own address")
}

// browser is who a browser is signed in as by a cookie that it shows; asked keeps the cookie's hash.
func (a *API) browser(ctx context.Context, r *http.Request, cookie string) (caller access.Caller, p *apiv1.Problem) {
	if console.Foreign(r) {
		return caller, foreign()
	}
	hash := person.HashToken(cookie)
	var left time.Duration
	err := a.DB.View(ctx, func(tx *core.Tx) (err error) {
		caller, left, err = ofCookie(ctx, tx, hash)
		return err
	})
	if err != nil {
		return caller, a.nobody(ctx, err)
	}
	asked := askedOf(ctx)
	asked.console, asked.cookie, asked.ends = true, hash, time.Now().Add(left)
	return caller, nil
}

// ofCookie is who a cookie of the console belongs to, and how long it stays valid; core.ErrNotFound if it has ended.
func ofCookie(ctx context.Context, tx *core.Tx, cookie string) (access.Caller, time.Duration, error) {
	caller, login, left, err := person.FindWebLogin(ctx, tx, cookie)
	if err == nil && login.Cluster != "" {
		err = core.ErrNotFound
	}
	return caller, left, err
}
