package monitor_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"muster/internal/identity"
	"muster/internal/monitor"
)

// FuzzJoin sends what anybody on the machines' network may send to the agents' door.
func FuzzJoin(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"node":"n1","boot":1,"token":"AAAA","csr":"","host_key":""}`,
		`{"node":"m1","boot":-1,"token":"","csr":"-----BEGIN CERTIFICATE REQUEST-----\nMA==\n-----END CERTIFICATE REQUEST-----\n"}`,
		`[`, `null`, `{"node":{}}`, `{"boot":1e400}`, "\x00", `{"node":"` + string(bytes.Repeat([]byte("n"), 5000)) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		f.Fatal(err)
	}
	// Without a database: who has no token does not reach it.
	handler := monitor.New(nil, authority, "test", slog.New(slog.DiscardHandler)).Handler()
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequest(http.MethodPost, "/agent/v1/join", bytes.NewReader(body))
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != http.StatusBadRequest && answer.Code != http.StatusForbidden {
			t.Errorf("%q: status %d, %s", body, answer.Code, answer.Body)
		}
	})
}
