package cli

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/oauth2"

	apiv1 "muster/api/v1"
)

// How long a user may take, and the provider for one answer.
const (
	loginPatience    = 10 * time.Minute
	providerPatience = 30 * time.Second
)

// byDevice lets the user log in in any browser, on any host: they type a code there.
func (a *app) byDevice(ctx context.Context, ways apiv1.Ways) (apiv1.ProofGiven, error) {
	if ways.Device == "" {
		return apiv1.ProofGiven{}, errors.New("this site's provider has no device login: use `muster login --browser`")
	}
	client := oauth2.Config{ClientID: ways.ClientID, Scopes: ways.Scopes, Endpoint: oauth2.Endpoint{
		DeviceAuthURL: ways.Device, TokenURL: ways.Token, AuthStyle: oauth2.AuthStyleInParams,
	}}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: providerPatience})
	code, err := client.DeviceAuth(ctx)
	if err != nil {
		return apiv1.ProofGiven{}, fmt.Errorf("ask %s for a code: %w", ways.Issuer, said(err))
	}
	a.say("Open %s in a browser, on any host, and type the code %s", code.VerificationURI, a.paint(a.err, green, code.UserCode))
	if code.VerificationURIComplete != "" {
		a.say("or open %s", code.VerificationURIComplete)
	}
	answer, err := client.DeviceAccessToken(ctx, code)
	if err != nil {
		return apiv1.ProofGiven{}, fmt.Errorf("wait for the login: %w", said(err))
	}
	id, _ := answer.Extra("id_token").(string)
	if id == "" {
		return apiv1.ProofGiven{}, fmt.Errorf("%s gave no ID token: an operator has to allow the scope openid for %s there",
			ways.Issuer, ways.ClientID)
	}
	return apiv1.ProofGiven{IDToken: id}, nil
}

// said is what a provider says is wrong, without what was sent or came back.
func said(err error) error {
	var answer *oauth2.RetrieveError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("nobody logged in in time; `muster login` starts again")
	case !errors.As(err, &answer):
		return err
	case answer.ErrorCode == "expired_token":
		return errors.New("the code was not typed in time; `muster login` starts again")
	case answer.ErrorCode == "access_denied":
		return errors.New("the login was refused in the browser")
	case answer.ErrorCode != "":
		return fmt.Errorf("the provider says %s", answer.ErrorCode)
	}
	return fmt.Errorf("the provider answers %s", answer.Response.Status)
}

// byBrowser has a browser on this host go to the provider and come back to a port of this program. What it comes back
// with is worth nothing without the verifier, which never leaves this program but for the controller.
func (a *app) byBrowser(ctx context.Context, ways apiv1.Ways) (apiv1.ProofGiven, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ways.Port))
	if err != nil {
		return apiv1.ProofGiven{}, fmt.Errorf("listen for the browser's return: %w", err)
	}
	back := "http://" + listener.Addr().String() + "/callback"
	p := apiv1.ProofGiven{CodeGiven: apiv1.CodeGiven{Verifier: oauth2.GenerateVerifier(), Redirect: back, Nonce: rand.Text()}}
	state := rand.Text()
	client := oauth2.Config{ClientID: ways.ClientID, Scopes: ways.Scopes, RedirectURL: back,
		Endpoint: oauth2.Endpoint{AuthURL: ways.Auth}}
	target := client.AuthCodeURL(state, oauth2.S256ChallengeOption(p.Verifier), oauth2.SetAuthURLParam("nonce", p.Nonce))

	returned := make(chan returning, 1)
	server := &http.Server{Handler: callback(state, returned), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // for the browser to get its page
		defer cancel()
		if server.Shutdown(limited) != nil {
			_ = server.Close()
		}
		<-served
	}()
	if openBrowser(target) {
		a.say("A browser opens. If it does not, open %s on this host", target)
	} else {
		a.say("Open %s in a browser on this host", target)
	}
	select {
	case r := <-returned:
		p.Code = r.code
		return p, r.err
	case <-ctx.Done():
		return p, said(ctx.Err())
	}
}

// returning is what the browser came back with.
type returning struct {
	code string
	err  error
}

// callback is where the browser comes back. It listens to the first one that knows the state, which others cannot know.
func callback(state string, returned chan<- returning) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			http.Error(w, "This is not the login that muster is waiting for.", http.StatusBadRequest)
			return
		}
		result := returning{code: q.Get("code")}
		switch {
		case q.Get("error") != "":
			result.err = fmt.Errorf("the provider says %q", q.Get("error"))
		case result.code == "":
			result.err = errors.New("the browser returned without a code")
		}
		select {
		case returned <- result:
		default: // a page loaded again
		}
		_, _ = io.WriteString(w, "Continue in the terminal. You can close this page.\n")
	})
	return mux
}

// openBrowser says whether a browser was asked to open an address. There is nothing in it that others may not see.
func openBrowser(target string) bool {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return false
	}
	c := exec.Command(program, target)
	if c.Start() != nil {
		return false
	}
	go func() { _ = c.Wait() }()
	return true
}
