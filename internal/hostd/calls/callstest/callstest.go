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
func From(t testing.TB, h calls.Host) *calls.Client {
	t.Helper()
	at := filepath.Join(t.TempDir(), "host.sock")
	listener, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: calls.Handler(h, calls.NewNotices())}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	c := calls.NewClient("here", func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", at)
	})
	t.Cleanup(func() {
		c.Close()
		_ = server.Close()
		<-served
	})
	return c
}
