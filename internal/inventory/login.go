package inventory

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"muster/internal/kit/duration"
)

// Login is how people log in by an OpenID Connect provider. Without an issuer they do not: they come with tokens.
type Login struct {
	Issuer     string // the provider, as it calls itself
	ClientID   string
	SecretFile string        // holds the client's secret; "": the client is public, and proves itself by PKCE alone
	Scopes     []string      // openid first
	NameClaim  string        // of the ID token, which names new people
	Create     bool          // who has never been here becomes a new person
	For        time.Duration // how long a login lasts
	Port       int           // that command lines listen on for the provider's answer; 0: any
}

type loginWritten struct {
	Issuer     string   `yaml:"issuer"`
	ClientID   string   `yaml:"client_id"`
	SecretFile string   `yaml:"secret_file"`
	Scopes     []string `yaml:"scopes"`
	NameClaim  string   `yaml:"name_claim"`
	Create     bool     `yaml:"create"`
	For        string   `yaml:"for"`
	Port       int      `yaml:"redirect_port"`
}

// loginMost is the longest that a login may last: a day, so that who has left is out by the next.
const loginMost = 24 * time.Hour

func (w *loginWritten) read() (Login, error) {
	if w == nil {
		return Login{}, nil
	}
	l := Login{Issuer: w.Issuer, ClientID: w.ClientID, SecretFile: w.SecretFile, NameClaim: w.NameClaim, Create: w.Create,
		For: 12 * time.Hour, Port: w.Port}
	if err := checkIssuer(w.Issuer); err != nil {
		return l, err
	}
	if l.ClientID == "" {
		return l, fmt.Errorf("login.client_id is missing: write what the provider knows this site as, for example muster")
	}
	if l.NameClaim == "" {
		l.NameClaim = "preferred_username"
	}
	if w.For != "" {
		life, err := duration.Within(w.For, time.Minute, loginMost)
		if err != nil {
			return l, fmt.Errorf("login.for, how long a login lasts: %w", err)
		}
		l.For = life
	}
	if l.Port < 0 || l.Port > 65535 {
		return l, fmt.Errorf("login.redirect_port: %d is no port; leave it out, or write one from 1 to 65535", l.Port)
	}
	l.Scopes = []string{"openid"}
	if w.Scopes == nil {
		w.Scopes = []string{"profile"}
	}
	for i, scope := range w.Scopes {
		if scope == "" || strings.ContainsAny(scope, " \"\\") {
			return l, fmt.Errorf("login.scopes[%d]: %q is no scope; write one word each, for example profile", i, scope)
		}
		if !slices.Contains(l.Scopes, scope) {
			l.Scopes = append(l.Scopes, scope)
		}
	}
	return l, nil
}

// checkIssuer wants https, but for a provider on the controller's own host, which others cannot listen to on the way.
func checkIssuer(text string) error {
	const advice = "write the provider's address as its documentation has it, for example https://id.example.org/realms/lab"
	if text == "" {
		return fmt.Errorf("login.issuer is missing: %s", advice)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("login.issuer: %q is not the address of a provider; %s", text, advice)
	}
	address, err := netip.ParseAddr(u.Hostname())
	here := u.Hostname() == "localhost" || err == nil && address.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !here) {
		return fmt.Errorf("login.issuer: %q; only https:// keeps others from reading along and answering in its place "+
			"(http:// is for this host alone)", text)
	}
	return nil
}
