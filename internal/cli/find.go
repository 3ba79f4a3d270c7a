package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/datadir"
)

// defaultData is where a controller keeps its state unless it is told otherwise.
const defaultData = "/var/lib/muster"

// The environment that names the controller.
const (
	envURL   = "MUSTER_URL"
	envToken = "MUSTER_TOKEN"
	envData  = "MUSTER_DATA"
	envDB    = "MUSTER_DB"

	envInsecure = "MUSTER_INSECURE"
)

func dataDir() string { return cmp.Or(os.Getenv(envData), defaultData) }

// connect finds the controller and the token for it, once: in the environment, in what a login left, or else in the data
// directory of a controller on this host. The local administrator's token is never sent to a URL from the environment.
func (a *app) connect() (*client, error) {
	if a.client != nil {
		return a.client, nil
	}
	c, admin, err := a.find()
	if err != nil {
		return nil, err
	}
	if c.token = os.Getenv(envToken); c.token != "" {
		a.client = c
		return c, nil
	}
	l, err := readLogin(c.base)
	switch {
	case err == nil && time.Now().After(l.ExpiresAt):
		return nil, fmt.Errorf("your login as %s has ended: `muster login` begins a new one, `muster logout` does without",
			l.Person)
	case err == nil:
		c.token = l.Token
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case admin == "":
		return nil, fmt.Errorf("you are not logged in at %s: `muster login` does that, or set %s", c.base, envToken)
	default:
		c.token, c.control = admin, c.beside
	}
	a.client = c
	return c, nil
}

// hurry has a request that fails not made again. Call it before the first.
func (a *app) hurry() { a.timing.repeats = nil }

// find finds the controller, and the local administrator's token if it is one of this host.
func (a *app) find() (c *client, admin string, err error) {
	address, source, beside := os.Getenv(envURL), envURL, ""
	if address == "" {
		data := dataDir()
		source = filepath.Join(data, "controller.json")
		var announced datadir.Announcement
		announced, admin, err = datadir.Find(data)
		address, beside = announced.URL, announced.Control
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, "", fmt.Errorf("no controller: %s is not there; start one with `muster serve`, or set %s and log in "+
				"with `muster login`", missing(err, source), envURL)
		case errors.Is(err, fs.ErrPermission):
			return nil, "", fmt.Errorf("no controller: %s cannot be read by you; run this as the user who started it, or set "+
				"%s and log in with `muster login`", missing(err, source), envURL)
		case err != nil:
			return nil, "", fmt.Errorf("find the controller: %w", err)
		}
	}
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, "", usage("%s: %q is not an address; write one like http://127.0.0.1:7420", source, address)
	}
	if source == envURL && !a.insecure && os.Getenv(envInsecure) != "1" {
		if err := inClear(base); err != nil {
			return nil, "", err
		}
	}
	c = &client{base: base, source: source, pauses: a.timing.repeats, beside: beside, say: a.say}
	c.http.CheckRedirect = sameHost
	c.http.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: c.dialer, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: dialPatience}
	return c, admin, nil
}

// inClear refuses an address to which the token, and all that is asked with it, would go for everybody to read.
func inClear(base *url.URL) error {
	if base.Scheme == "https" || base.Hostname() == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(base.Hostname()); err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	const own = "7420" // any would do
	return fmt.Errorf("%s is %s: your token would travel in clear text, for anybody on the way to read and use\n"+
		"use https://%s, if the site has that;\n"+
		"or `ssh -L %s:localhost:%s %s` to the controller's host, and %s=http://localhost:%s;\n"+
		"or, on a network that you trust, --insecure or %s=1", envURL, base, base.Hostname(), own, cmp.Or(base.Port(), "80"),
		base.Hostname(), envURL, own, envInsecure)
}

// sameHost follows redirects to where the request was sent only: a token is not for others, and no other way in is safer.
func sameHost(r *http.Request, via []*http.Request) error {
	const most = 5
	if from := via[0].URL; r.URL.Scheme != from.Scheme || r.URL.Host != from.Host {
		return fmt.Errorf("%s redirects to %s://%s, and your token is not sent there: set %s to that, if it is the controller",
			from.Host, r.URL.Scheme, r.URL.Host, envURL)
	}
	if len(via) >= most {
		return fmt.Errorf("%s redirects too often", r.URL.Host)
	}
	return nil
}

// missing is the file that an error is about.
func missing(err error, otherwise string) string {
	if at, is := errors.AsType[*fs.PathError](err); is {
		return at.Path
	}
	return otherwise
}
