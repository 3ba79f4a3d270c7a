// Package callstest puts the wire between a driver and its caller, for tests.
package callstest

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"muster/internal/hostd/calls"
)

// From is a host as one calls it who is elsewhere. It is gone after the test.
func From(t testing.TB, h calls.Host) *calls.Client { return agent(t, h).Host(substrate) }

// substrate is how what is here is called.
const substrate = "here"

// agent has one substrate.
func agent(t testing.TB, n calls.Nodes) *calls.Agent {
	t.Helper()
	at := filepath.Join(t.TempDir(), "host.sock")
	listener, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: calls.Handler(map[string]calls.Nodes{substrate: n}, calls.NewNotices())}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	a := calls.NewAgent("here", func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", at)
	})
	t.Cleanup(func() {
		a.Close()
		_ = server.Close()
		<-served
	})
	return a
}
