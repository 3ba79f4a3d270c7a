package monitor

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/internal/identity"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/mail"
	"muster/internal/protocol"
)

// What cannot be sent is told so that the head tries again; what is for no recipient of the site's never reaches the relay.
func TestLettersOfHeadsGoToTheSitesRelayAlone(t *testing.T) {
	db := smallCluster(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := &mail.Relay{Address: closed.Addr().String(), From: "muster@example.org", Domains: []string{"example.org"}}
	closed.Close()
	to := func(names ...string) (l protocol.Letters) {
		for _, name := range names {
			l.Letters = append(l.Letters, protocol.Letter{To: name, User: "ada", Subject: "x"})
		}
		return l
	}
	for _, c := range []struct {
		name    string
		relay   *mail.Relay
		who     string
		letters any
		status  int
		done    int
	}{
		{"a compute node", nobody, "n1", to("ada"), http.StatusGone, 0},
		{"no letters", nobody, "head", "x", http.StatusBadRequest, 0},
		{"the site has no relay any more", nil, "head", to("ada", "bob"), http.StatusOK, 2},
		{"nobody of the site's", nobody, "head", to("eve@example.com", "eve@example.org\r\nRCPT TO:<x@y>"), http.StatusOK, 2},
		{"the relay is away", nobody, "head", to("ada"), http.StatusServiceUnavailable, 0},
		{"the relay is away, and the first is for nobody", nobody, "head", to("eve@example.com", "ada", "bob"), http.StatusOK, 1},
	} {
		m := New(db, nil, "test", slog.New(slog.DiscardHandler))
		m.Mail = c.relay
		body, _ := json.Marshal(c.letters)
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, protocol.MailPath, bytes.NewReader(body))
		m.post(answer, request, identity.Agent{Node: c.who})
		var posted protocol.Posted
		if answer.Code == http.StatusOK {
			if err := json.Unmarshal(answer.Body.Bytes(), &posted); err != nil {
				t.Error(err)
			}
		}
		if answer.Code != c.status || posted.Done != c.done {
			t.Errorf("%s: %d, %d done: %s", c.name, answer.Code, posted.Done, strings.TrimSpace(answer.Body.String()))
		}
	}
	m := New(db, nil, "test", slog.New(slog.DiscardHandler))
	m.Mail = nobody
	var many []string
	for range lettersAtOnce + 100 {
		many = append(many, "ada")
	}
	if done, err := m.send(t.Context(), cluster.Cluster{Project: "aero"}, to(many...).Letters); done != 0 || err == nil {
		t.Errorf("%d done, %v", done, err)
	}
	if done, err := m.send(t.Context(), cluster.Cluster{Project: "aero"}, to("ada").Letters); done != 1 || err != nil {
		t.Errorf("who sends too much is not told to try again: %d done, %v", done, err)
	}
}
