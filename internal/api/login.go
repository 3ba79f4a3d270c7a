package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/crypto/ssh"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/door/console"
	"muster/internal/door/login"
	"muster/internal/kinds/person"
	"muster/internal/kit/limit"
)

// Login asks the site's OpenID Connect provider who somebody is.
type Login interface {
	// Site is what a client needs to send a person to the provider. It is asked before each login, and may be repeated.
	Site(ctx context.Context) (login.Site, error)
	// Exchange redeems the code that a browser has brought back. A code is good once.
	Exchange(ctx context.Context, code login.Code, now time.Time) (login.Identity, error)
	// Verify checks an ID token that a command line has got by itself. It may be repeated until the token ends.
	Verify(ctx context.Context, idToken string, now time.Time) (login.Identity, error)
}

func (a *API) ways(ctx context.Context, _ *apiv1.Nothing) (*output[apiv1.Ways], error) {
	if a.Login == nil {
		return nil, noLogin()
	}
	s, err := a.Login.Site(ctx)
	if err != nil {
		return nil, a.unproved(ctx, err)
	}
	return &output[apiv1.Ways]{Body: apiv1.Ways{Issuer: s.Issuer, ClientID: s.ClientID, Scopes: s.Scopes, Auth: s.Auth,
		Device: s.Device, Token: s.Token, Port: s.Port, For: s.For.String()}}, nil
}

func noLogin() *apiv1.Problem {
	return notFound("this site has no login: its file names no provider under login",
		"an operator can give you a token, for MUSTER_TOKEN")
}

// anotherLogin is what to do after one that came to nothing.
const anotherLogin = "`muster login` begins another one, and so does the console"

// unproved tells why a login came to nothing. What a provider does wrong is for the log.
func (a *API) unproved(ctx context.Context, err error) *apiv1.Problem {
	if errors.Is(err, login.ErrRefused) {
		return problem(http.StatusUnauthorized, err.Error(), anotherLogin)
	}
	a.Log.WarnContext(ctx, "the login provider does not answer as it should", "error", err)
	return problem(http.StatusServiceUnavailable, "the site's login provider does not answer as it should",
		"the controller's log says what; try again")
}

func (a *API) logIn(ctx context.Context, in *apiv1.LogInInput) (*output[apiv1.LoggedIn], error) {
	if a.Login == nil {
		return nil, noLogin()
	}
	b := in.Body
	if (b.IDToken == "") == (b.Code == "") {
		return nil, invalid("give an id_token or a code", "the one that the provider gave")
	}
	if b.PublicKey != "" {
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(b.PublicKey)); err != nil {
			return nil, invalid("public_key: this is no SSH public key in one line", "")
		}
	}
	who, err := a.prove(ctx, b.IDToken, b.CodeGiven)
	if err != nil {
		return nil, err
	}
	name := "login"
	if b.Name != "" {
		name += " from " + b.Name
	}
	text := newToken()
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.LoggedIn) error {
		caller, isNew, err := a.letIn(ctx, tx, who, name, person.HashToken(text), who.site.For)
		if err != nil {
			return err
		}
		*out = apiv1.LoggedIn{ID: caller.Token, Token: text, Person: caller.Name, New: isNew, ExpiresAt: caller.Until}
		if b.PublicKey == "" {
			return nil
		}
		out.Certificate, err = a.Authority.CertifyLogin(b.PublicKey, caller.Name, caller.Token,
			caller.Until.Add(-who.site.For), who.site.For)
		if err != nil {
			return invalid("public_key: "+err.Error(), "")
		}
		return nil
	})
}

// proved is who has proved to be somebody, at which site.
type proved struct {
	login.Identity
	site login.Site
}

// prove has the provider's word checked, by the database's clock: an ID token, or else a code.
func (a *API) prove(ctx context.Context, idToken string, code apiv1.CodeGiven) (who proved, err error) {
	if who.site, err = a.Login.Site(ctx); err != nil {
		return who, a.unproved(ctx, err)
	}
	var now time.Time
	if err := a.DB.View(ctx, func(tx *core.Tx) (err error) { now, err = tx.Now(ctx); return err }); err != nil {
		return who, err
	}
	if idToken != "" {
		who.Identity, err = a.Login.Verify(ctx, idToken, now)
	} else {
		who.Identity, err = a.Login.Exchange(ctx, login.Code(code), now)
	}
	if err != nil {
		return who, a.unproved(ctx, err)
	}
	return who, nil
}

// mostLogins is how many logins of one person last at a time: of each device and script. The oldest ends.
const mostLogins = 100

// letIn makes the token with a hash, good for life, for who has proved to be somebody, and says who that is here.
func (a *API) letIn(ctx context.Context, tx *core.Tx, who proved, name, hash string, life time.Duration) (caller access.Caller,
	isNew bool, err error) {
	switch err := person.SpendProof(ctx, tx, who.Hash, who.Until); {
	case errors.Is(err, core.ErrExists):
		return caller, false, problem(http.StatusUnauthorized, "this ID token has been used already", anotherLogin)
	case err != nil:
		return caller, false, err
	}
	p, isNew, err := a.personOf(ctx, tx, who)
	if err != nil {
		return caller, false, err
	}
	askedOf(ctx).identity = p.Name
	if p.Disabled {
		return caller, false, forbidden(p.Name+" is disabled everywhere", "an operator of the site can undo that")
	}
	t := person.Token{ID: core.NewID("t"), Person: p.Name, Name: name, Kind: person.LoginToken, Scope: access.Whole}
	if err := person.AddToken(ctx, tx, hash, t, life); err != nil {
		return caller, false, err
	}
	if err := person.EndLogins(ctx, tx, p.Name, mostLogins); err != nil {
		return caller, false, err
	}
	caller, err = person.Login(ctx, tx, t.ID)
	return caller, isNew, err
}

// personOf is who an identity belongs to. Where the site says so, who is unknown becomes a new person. The same name as a
// person's does not make it theirs, and no login makes an operator.
func (a *API) personOf(ctx context.Context, tx *core.Tx, who proved) (p person.Person, isNew bool, err error) {
	p, err = person.OfSubject(ctx, tx, who.Subject)
	if !isNotFound(err) {
		return p, false, err
	}
	refused := func(text, hint string) error {
		return forbidden(text, fmt.Sprintf("an operator can: `%s --subject '%s'`", hint, who.Subject))
	}
	if !who.site.Create {
		return p, false, refused("nobody here has this identity, and a login makes no new people at this site",
			"muster users add NAME")
	}
	if why := noAccount(who.Name); why != "" {
		return p, false, refused(fmt.Sprintf("the provider calls you %q, which cannot be an account: %s", who.Name, why),
			"muster users add "+accountLike(who.Name))
	}
	switch _, err := person.Get(ctx, tx, who.Name); {
	case err == nil:
		return p, false, refused(fmt.Sprintf("a person %s exists already and may be somebody else: a name alone proves nothing",
			who.Name), "muster users set "+who.Name)
	case !isNotFound(err):
		return p, false, err
	}
	if err := person.Add(ctx, tx, person.Person{Name: who.Name, FullName: who.FullName, Subject: who.Subject}); err != nil {
		return p, false, err
	}
	tx.Log(core.Event{Type: "person.requested", Text: fmt.Sprintf("%s may come, by a login at %s", who.Name, who.site.Issuer)})
	p, err = person.Get(ctx, tx, who.Name)
	return p, true, err
}

// cameFrom is the address that tries to log in are counted by: what a proxy on this host says last, as that is its own word.
// Programs of this host could say that too, and would count as who they name.
func cameFrom(ctx huma.Context) string {
	remote := ctx.RemoteAddr()
	if !limit.AddressOf(remote).Here {
		return remote
	}
	r, _ := humago.Unwrap(ctx)
	lines := r.Header.Values("X-Forwarded-For")
	if len(lines) == 0 {
		return remote
	}
	words := strings.Split(lines[len(lines)-1], ",")
	if said := strings.TrimSpace(words[len(words)-1]); !limit.AddressOf(said).Here {
		return said
	}
	return remote
}

// openly answers an operation that needs no token.
func (a *API) openly(ctx huma.Context, refuse func(*apiv1.Problem), next func(huma.Context)) {
	logsIn := ctx.Operation().OperationID == apiv1.LogIn.ID || ctx.Operation().OperationID == apiv1.SignIn.ID
	remote := cameFrom(ctx)
	if r, _ := humago.Unwrap(ctx); ctx.Operation().OperationID == apiv1.SignIn.ID && console.Foreign(r) {
		refuse(foreign()) // it would have somebody work as somebody else
		return
	}
	if wait := a.Shares.tries.More(remote, time.Now()); wait > 0 {
		ctx.SetHeader("Retry-After", fmt.Sprint(int(wait.Seconds())+1))
		refuse(problem(http.StatusTooManyRequests, "too many logins from your address",
			fmt.Sprintf("try again in %s", max(wait, time.Second).Round(time.Second))))
		return
	}
	if logsIn {
		who, share := limit.AddressOf(remote), &a.Shares.checked
		if who.Here {
			who.Key, share = "this host", &a.Shares.checkedHere
		}
		leave, over := share.Enter(who.Key, false)
		if over != nil {
			refuse(overLimit(ctx, over))
			return
		}
		defer leave()
	}
	next(ctx)
	if logsIn {
		a.audit(ctx, access.Caller{Name: askedOf(ctx.Context()).identity, Token: askedOf(ctx.Context()).token})
	}
}
