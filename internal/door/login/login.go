// Package login asks the site's OpenID Connect provider who somebody is.
//
// What enters: the site's settings, and what a command line or a browser has got from the provider: an ID token, or a
// code for one. What leaves: the identity that the provider vouches for, or why it does not. Who that is here, and what
// they may do, is not decided here.
package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"muster/internal/inventory"
)

// patience is how long the provider may take for an answer.
const patience = 10 * time.Second

// ErrRefused means that what was shown proves nothing; the text says why. Any other error means that the provider cannot
// be asked.
var ErrRefused = errors.New("the login is refused")

// Provider is a site's.
type Provider struct {
	settings inventory.Login
	secret   string
	http     *http.Client

	found  atomic.Pointer[oidc.Provider] // nil until it has been asked with success
	asking singleflight.Group
}

// Open reads the client's secret, if it has one. It does not ask the provider, which may be down when a controller starts.
func Open(settings inventory.Login) (*Provider, error) {
	p := &Provider{settings: settings, http: &http.Client{Timeout: patience}}
	if settings.SecretFile == "" {
		return p, nil
	}
	about, err := os.Stat(settings.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("login.secret_file: %w", err)
	}
	if about.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("login.secret_file: others than its owner may read %s: `chmod 600` it, and have the provider "+
			"make another secret: %w", settings.SecretFile, fs.ErrPermission)
	}
	text, err := os.ReadFile(settings.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("login.secret_file: %w", err)
	}
	if p.secret = strings.TrimSpace(string(text)); p.secret == "" {
		return nil, fmt.Errorf("login.secret_file: %s is empty", settings.SecretFile)
	}
	return p, nil
}

// provider is what the provider says of itself. It is asked again until it has answered once; all who need the answer at the
// same time wait for the same question, each as long as their own ctx lets them.
func (p *Provider) provider(ctx context.Context) (*oidc.Provider, error) {
	if found := p.found.Load(); found != nil {
		return found, nil
	}
	answered := p.asking.DoChan("", func() (any, error) {
		if p.found.Load() != nil { // by the question before
			return nil, nil
		}
		forAll := context.WithoutCancel(ctx) // the caller that asked first may go away; patience bounds it
		found, err := oidc.NewProvider(oidc.ClientContext(forAll, p.http), p.settings.Issuer)
		if err == nil {
			p.found.Store(found)
		}
		return nil, err
	})
	var err error
	select {
	case answer := <-answered:
		err = answer.Err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s about itself: %w", p.settings.Issuer, err)
	}
	return p.found.Load(), nil
}

// Site is what a client needs to know to begin.
type Site struct {
	Issuer   string
	ClientID string
	Scopes   []string
	Auth     string // where browsers go
	Token    string // where device codes are exchanged; "" with Device
	// where device codes are asked for; "": the provider has none, or gives them to those who know the client's secret only
	Device string
	Port   int  // that the answer has to come back to; 0: any
	Create bool // who has never been here becomes a new person
	For    time.Duration
}

// Site tells it.
func (p *Provider) Site(ctx context.Context) (Site, error) {
	found, err := p.provider(ctx)
	if err != nil {
		return Site{}, err
	}
	s := Site{Issuer: p.settings.Issuer, ClientID: p.settings.ClientID, Scopes: p.settings.Scopes, Auth: found.Endpoint().AuthURL,
		Port:   p.settings.Port,
		Create: p.settings.Create, For: p.settings.For}
	if p.secret == "" && found.Endpoint().DeviceAuthURL != "" {
		s.Device, s.Token = found.Endpoint().DeviceAuthURL, found.Endpoint().TokenURL
	}
	return s, nil
}

// Identity is who the provider says that somebody is.
type Identity struct {
	Subject  string    // issuer and subject, separated by a space: the same for life
	Name     string    // what they would like to be called
	FullName string    // may be empty
	Until    time.Time // how long the proof is good
	Hash     string    // of what was signed: the same proof has the same one, however it is written
}

// Code is the provider's answer to a browser, with what belongs to it.
type Code struct {
	Code     string
	Verifier string // of PKCE
	Redirect string // where the answer came
	Nonce    string // that the ID token must have
}

// Exchange has a code exchanged for an ID token and reads that. A client that knows the code has to know the verifier too.
func (p *Provider) Exchange(ctx context.Context, code Code, now time.Time) (Identity, error) {
	found, err := p.provider(ctx)
	if err != nil {
		return Identity{}, err
	}
	if code.Nonce == "" || code.Verifier == "" {
		return Identity{}, fmt.Errorf("%w: a code is taken together with its verifier and its nonce", ErrRefused)
	}
	client := oauth2.Config{ClientID: p.settings.ClientID, ClientSecret: p.secret, Endpoint: found.Endpoint(),
		RedirectURL: code.Redirect}
	client.Endpoint.AuthStyle = p.style(found)
	answer, err := client.Exchange(oidc.ClientContext(ctx, p.http), code.Code, oauth2.VerifierOption(code.Verifier))
	if err != nil {
		return Identity{}, told(err)
	}
	raw, _ := answer.Extra("id_token").(string)
	if raw == "" {
		return Identity{}, errors.New(
			"the provider answers a code without an ID token: is openid one of the client's scopes there?")
	}
	return p.verify(ctx, raw, code.Nonce, now)
}

// style is how the client shows who it is. The library would try one way after the other, and tell why the last one failed.
func (p *Provider) style(found *oidc.Provider) oauth2.AuthStyle {
	var says struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	_ = found.Claims(&says) // was read as JSON before
	basic := len(says.Methods) == 0 || slices.Contains(says.Methods, "client_secret_basic")
	if p.secret != "" && basic {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// told is what a provider says against an exchange, without what was sent or came back.
func told(err error) error {
	var answer *oauth2.RetrieveError
	switch {
	case !errors.As(err, &answer):
		return fmt.Errorf("exchange the code: %w", err)
	case answer.Response != nil && answer.Response.StatusCode >= 500:
		return fmt.Errorf("exchange the code: the provider answers %s", answer.Response.Status)
	case answer.ErrorCode == "invalid_client" || answer.ErrorCode == "unauthorized_client":
		return fmt.Errorf("exchange the code: the provider does not know this client (%s): the site file and the provider "+
			"must agree about login.client_id and login.secret_file", answer.ErrorCode)
	}
	return fmt.Errorf("%w: the provider does not take the code: it was used, is too old, or is somebody else's", ErrRefused)
}

// Verify reads an ID token that the device flow gave, which knows no nonce.
func (p *Provider) Verify(ctx context.Context, raw string, now time.Time) (Identity, error) {
	return p.verify(ctx, raw, "", now)
}

func (p *Provider) verify(ctx context.Context, raw, nonce string, now time.Time) (Identity, error) {
	found, err := p.provider(ctx)
	if err != nil {
		return Identity{}, err
	}
	check := found.Verifier(&oidc.Config{ClientID: p.settings.ClientID, Now: func() time.Time { return now }})
	token, err := check.Verify(oidc.ClientContext(ctx, p.http), raw)
	var late *oidc.TokenExpiredError
	switch {
	case errors.As(err, &late):
		return Identity{}, fmt.Errorf("%w: the ID token has ended at %s", ErrRefused, late.Expiry.UTC().Format(time.RFC3339))
	case err != nil && strings.Contains(err.Error(), "fetching keys"): // the library does not wrap this one
		return Identity{}, fmt.Errorf("get the provider's keys: %w", err)
	case err != nil:
		return Identity{}, fmt.Errorf("%w: %s", ErrRefused, strings.TrimPrefix(err.Error(), "oidc: "))
	}
	var payload json.RawMessage
	var claims struct {
		Party string `json:"azp"`
		Name  string `json:"name"`
	}
	var all map[string]any
	for _, into := range []any{&payload, &claims, &all} {
		if err := token.Claims(into); err != nil {
			return Identity{}, fmt.Errorf("%w: its claims cannot be read", ErrRefused)
		}
	}
	switch {
	case token.Nonce != nonce:
		return Identity{}, fmt.Errorf("%w: the ID token was made for another login", ErrRefused)
	case claims.Party != "" && claims.Party != p.settings.ClientID:
		return Identity{}, fmt.Errorf("%w: the ID token was issued to %q, not to %q", ErrRefused, claims.Party,
			p.settings.ClientID)
	case token.Subject == "" || strings.ContainsAny(token.Subject, " \n"):
		return Identity{}, fmt.Errorf("%w: the ID token has no usable subject", ErrRefused)
	}
	sum := sha256.Sum256(payload)
	name, _ := all[p.settings.NameClaim].(string)
	return Identity{
		Subject: p.settings.Issuer + " " + token.Subject, Name: name, FullName: claims.Name, Until: token.Expiry,
		Hash: hex.EncodeToString(sum[:]),
	}, nil
}
