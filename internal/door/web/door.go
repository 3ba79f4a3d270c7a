// Package web is the HTTPS door: it leads browsers to the web applications that clusters name in their files.
//
// What enters: requests for APP--CLUSTER--PROJECT.DOMAIN with a cookie, which a browser gets for a code of `muster open`.
// What leaves: the same requests inside the cluster's network, without the cookie, with the name of who makes them; and
// entries of the audit log, one when an app is opened. Each request asks again whether its sender may enter; those that go
// on for long are asked again when it changes who may do what.
package web

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"path"
	"strings"
	"sync"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/person"
	"muster/internal/kit/limit"
)

// Config is what a door needs.
type Config struct {
	Place       Place
	DB          *core.Store
	Dialer      substrate.Dialer
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Log         *slog.Logger
	NewID       func(kind string) string // for entries of the audit log
	Requests    int                      // of all people at once; 0: a thousand
	Meter       limit.Meter              // nil: nothing is counted
}

// Door leads to web apps.
type Door struct {
	Config
	proxy    *httputil.ReverseProxy
	requests limit.Share
	lines    limit.Lines // of the log, that apps cause

	mu   sync.Mutex
	open map[*visit]context.CancelCauseFunc // requests that are being answered
}

// New makes a door; Run opens it.
func New(c Config) *Door {
	d := &Door{Config: c, open: map[*visit]context.CancelCauseFunc{}, lines: limit.LinesOfUnknown()}
	d.requests = limit.Share{Kind: "requests and connections to web apps", Each: eachRequests, Total: cmp.Or(c.Requests, 1000),
		Door: "web", Meter: c.Meter,
		Hint: "close some windows"}
	d.proxy = d.newProxy()
	return d
}

// eachRequests is how many requests of one person may be under way; notebooks keep one or two each for as long as they are open.
const eachRequests = 200

// CodeLife is how long the code in the address that `muster open` prints is good, once.
const CodeLife = time.Minute

// cookieLife is how long a browser stays signed in.
const cookieLife = 12 * time.Hour

// cookieName begins with what makes browsers refuse such a cookie from any other host, and for any other.
const cookieName = "__Host-muster"

// Paths of the door's own below each app's address.
const (
	ownPaths   = "/.muster/"
	signInPath = ownPaths + "sign-in"
)

// SignIn is the address that exchanges a code for a cookie.
func SignIn(p Place, c cluster.Cluster, app, code string) string {
	return strings.TrimSuffix(p.URL(c, app), "/") + signInPath + "?code=" + code
}

// NewCode makes a code, or a cookie: 256 random bits.
func NewCode() string { return rand.Text() + rand.Text() }

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, ours := d.Place.parse(r.Host)
	switch {
	case !ours:
		misdirected(d.Place).write(w, r)
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace || !strings.HasPrefix(r.URL.Path, "/"):
		refusal{status: http.StatusBadRequest, title: "That is no request for an app"}.write(w, r)
	case r.URL.Path == signInPath:
		d.signIn(w, r, asked)
	case strings.HasPrefix(r.URL.Path, ownPaths):
		refusal{status: http.StatusNotFound, title: "There is nothing here"}.write(w, r)
	case foreign(r):
		fromElsewhere.write(w, r)
	case r.Header.Get("Service-Worker") == "script" && path.Dir(r.URL.EscapedPath()) == "/":
		refusal{status: http.StatusForbidden, title: "A service worker may not have an app's whole address"}.write(w, r)
	default:
		d.serve(w, r, asked)
	}
}

// serve passes a request on, if its sender may enter.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, a asked) {
	var v *visit
	cookies := r.CookiesNamed(cookieName)
	err := error(notSignedIn(a))
	if len(cookies) == 1 { // two would mean that somebody else has planted one
		v, err = core.Look(r.Context(), d.DB, func(tx *core.Tx) (*visit, error) {
			return d.enter(r.Context(), tx, person.HashToken(cookies[0].Value), a)
		})
	}
	if err == nil {
		err = v.reachable()
	}
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	limit.Known(r.Context())
	leave, over := d.requests.Enter(v.who.Name, false)
	if over != nil {
		tooMany(over).write(w, r)
		return
	}
	defer leave()
	ctx, done := d.begin(r.Context(), v)
	defer done()
	// An app may answer while it still reads; otherwise the server would swallow a part of what it has not read yet.
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		d.refuse(w, r, err)
		return
	}
	d.proxy.ServeHTTP(visited{w, ctx}, r.WithContext(ctx))
}

// visited is the answer of a visit. A connection that was taken over, as for a WebSocket, ends with the visit, also where its
// browser takes nothing more.
type visited struct {
	http.ResponseWriter
	ctx context.Context
}

// Unwrap is for http.ResponseController.
func (v visited) Unwrap() http.ResponseWriter { return v.ResponseWriter }

// Hijack is http.Hijacker's.
func (v visited) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := http.NewResponseController(v.ResponseWriter).Hijack()
	if err == nil {
		context.AfterFunc(v.ctx, func() { _ = c.Close() })
	}
	return c, buffered, err
}

// refuse tells why a request goes no further.
func (d *Door) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var known refusal
	if !errors.As(err, &known) {
		if r.Context().Err() == nil {
			d.Log.ErrorContext(r.Context(), "cannot lead to a web app", "host", r.Host, "error", err)
		}
		known = refusal{status: http.StatusInternalServerError, title: "The door does not work now",
			hint: "Try again in a moment."}
	}
	known.write(w, r)
}

// signIn exchanges a code for a cookie.
func (d *Door) signIn(w http.ResponseWriter, r *http.Request, a asked) {
	if r.Method != http.MethodGet {
		refusal{status: http.StatusMethodNotAllowed, title: "Signing in takes GET"}.write(w, r)
		return
	}
	cookie, code := NewCode(), person.HashToken(r.URL.Query().Get("code"))
	err := d.DB.View(r.Context(), func(tx *core.Tx) error { // strangers make no one wait who writes
		is, err := person.IsWebCode(r.Context(), tx, code)
		if err == nil && !is {
			err = deadCode(a)
		}
		return err
	})
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	var v *visit
	err = d.DB.Update(r.Context(), func(tx *core.Tx) error {
		err := person.UseWebCode(r.Context(), tx, code, person.HashToken(cookie), cookieLife)
		if errors.Is(err, core.ErrNotFound) {
			return deadCode(a)
		}
		if err != nil {
			return err
		}
		if v, err = d.enter(r.Context(), tx, person.HashToken(cookie), a); err != nil {
			return err
		}
		return errors.Join(person.TouchToken(r.Context(), tx, v.who.Token), person.Audit(r.Context(), tx, person.Entry{
			ID: d.NewID("a"), Person: v.who.Name, Token: v.who.Token, Door: person.WebDoor, Action: "open-app",
			Project: v.cluster.Project,
			Object:  v.cluster.Name + "/" + v.app.Name, Outcome: "opened", Remote: r.RemoteAddr,
		}))
	})
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: cookie, Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, MaxAge: int(v.left.Seconds())})
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Clear-Site-Data", `"cache"`)     // pages of who had the app before
	w.Header().Set("Referrer-Policy", "no-referrer") // the code is used up, and still not for others to see
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// foreign says that another site's page made the request. Apps of different tenants are of one site in a browser's eyes, which
// sends the cookie along, so each request is asked where it comes from; only following a link is free to all.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "": // browsers send no such header when they open a WebSocket, and programs never
		origin := r.Header.Get("Origin")
		return origin != "" && !strings.EqualFold(origin, "https://"+r.Host)
	}
	follows := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return !follows || r.Method != http.MethodGet && r.Method != http.MethodHead
}
