// Package callstest puts the wire between a driver and its caller, for tests.
package callstest

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"muster/internal/hostd/calls"
)

// here is how the one substrate is called that a test has.
const here = "here"

// From is a host as one calls it who is elsewhere. It is gone after the test.
func From(t testing.TB, h calls.Host) *calls.Client {
	t.Helper()
	return Agent(t, map[string]calls.Nodes{here: h}).Host(here)
}

// Guests is the same of a host with guests.
func Guests(t testing.TB, g calls.Guests) *calls.GuestsClient {
	t.Helper()
	c, err := Agent(t, map[string]calls.Nodes{here: g}).Guests(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Agent has such substrates.
func Agent(t testing.TB, opened map[string]calls.Nodes) *calls.Agent {
	t.Helper()
	at := filepath.Join(t.TempDir(), "host.sock")
	listener, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: calls.Handler(opened, calls.NewNotices())}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) }) // until it is closed
	a := calls.NewAgent(here, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", at)
	})
	t.Cleanup(func() {
		a.Close()
		_ = server.Close()
		served.Wait()
	})
	return a
}
