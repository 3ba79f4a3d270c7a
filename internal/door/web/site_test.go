package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
	"muster/internal/kit/limit"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// site is a door before two tenants, aero and bio, who have each a cluster cfd with an app jupyter on its head, at one and the
// same address of their networks.
type site struct {
	*testing.T
	db      *core.Store
	door    *Door
	address string
	roots   *x509.CertPool
	codes   atomic.Int64

	mu   sync.Mutex
	apps map[string]string // cluster → where its app really listens
}

// Dial is the networks of the clusters.
func (s *site) Dial(ctx context.Context, cluster string, to netip.AddrPort) (net.Conn, error) {
	s.mu.Lock()
	address := s.apps[cluster]
	s.mu.Unlock()
	if to.String() != "10.77.0.2:8888" {
		return nil, errors.New("the app is not at " + to.String())
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, db: kindstest.Open(t, t.TempDir()+"/db"), apps: map[string]string{}, roots: x509.NewCertPool()}
	s.update(func(ctx context.Context, tx *core.Tx) error {
		for _, name := range []string{"alice", "mallory", "vera"} {
			token := person.Token{ID: "t-" + name, Person: name, Name: "test", Kind: person.APIToken, Scope: access.Whole}
			if err := errors.Join(person.Add(ctx, tx, person.Person{Name: name}),
				person.AddToken(ctx, tx, person.HashToken(name), token, time.Hour)); err != nil {
				return err
			}
		}
		for _, project := range []string{"aero", "bio"} {
			machineID, id := "m-"+project, "c"+project
			document := spec.Cluster{Name: "cfd", Project: project,
				Access: &spec.Access{Apps: []spec.App{{Name: "jupyter", Port: 8888, Node: "head"}}}}
			err := errors.Join(
				person.AddProject(ctx, tx, person.Project{Name: project}),
				machine.Add(ctx, tx, inventory.Machine{ID: machineID, Name: machineID, Substrate: "local"}),
				cluster.Add(ctx, tx, cluster.Cluster{ID: id, Project: project, Name: "cfd", Spec: document, Image: "sha256:00",
					CreatedBy: "admin"}),
				cluster.AddSeat(ctx, tx, id, cluster.Seat{Name: "head", Slot: 2}),
				node.Add(ctx, tx, node.Node{ID: "n" + project, Cluster: id, Name: "head", Role: protocol.Head, Class: "service",
					MachineID: machineID, Machine: machineID}),
			)
			if err != nil {
				return err
			}
		}
		return errors.Join(s.member(ctx, tx, "aero", "alice", access.Member), s.member(ctx, tx, "aero", "vera", access.Viewer),
			s.member(ctx, tx, "bio", "mallory", access.Member))
	})
	s.settle(node.Kind, core.Ready)
	s.settle(cluster.Kind, core.Ready)
	s.listen()
	return s
}

func (s *site) member(ctx context.Context, tx *core.Tx, project, name string, role access.Role) error {
	return person.SetMember(ctx, tx, person.Membership{Project: project, Person: name, Role: role})
}

func (s *site) update(f func(ctx context.Context, tx *core.Tx) error) {
	s.Helper()
	if err := s.db.Update(s.Context(), func(tx *core.Tx) error { return f(s.Context(), tx) }); err != nil {
		s.Fatal(err)
	}
}

// settle gives everything of a kind a phase.
func (s *site) settle(kind core.Kind, phase core.Phase) {
	s.Helper()
	claims, err := s.db.Claim(s.Context(), kind, "test", time.Minute, 100)
	if err != nil || len(claims) == 0 {
		s.Fatal("nothing to settle", err)
	}
	for _, c := range claims {
		s.update(func(ctx context.Context, tx *core.Tx) error {
			return tx.Settle(ctx, c, core.Settlement{Phase: phase, Reason: "for the test"})
		})
	}
}

func (s *site) listen() {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		s.Fatal(err)
	}
	own, err := authority.Web("apps.test")
	if err != nil {
		s.Fatal(err)
	}
	s.roots.AppendCertsFromPEM([]byte(own.PEM()))
	s.address = l.Addr().String()
	place := Place{Domain: "apps.test"}
	var entries atomic.Int64
	s.door = New(Config{Place: place, DB: s.db, Dialer: s, Certificate: Own(place, own), Log: slog.New(slog.DiscardHandler),
		NewID: func(kind string) string { return fmt.Sprint(kind, entries.Add(1)) }})
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	gate := limit.NewGroup(1000, nil).Limiter(l, limit.BudgetOf(20000).WebLimits())
	go func() { done <- s.door.Run(ctx, gate) }()
	s.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	})
}

// serves makes a handler the app of a cluster.
func (s *site) serves(cluster string, app http.HandlerFunc) {
	s.Helper()
	server := httptest.NewServer(app)
	s.Cleanup(server.Close)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps[cluster] = server.Listener.Addr().String()
}

const (
	aero = "jupyter--cfd--aero.apps.test"
	bio  = "jupyter--cfd--bio.apps.test"
)

// browser is a client for which every host is the door.
func (s *site) browser() *http.Client {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", s.address)
		},
	}
	s.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// code is one for an app of a cluster, as the API makes it.
func (s *site) code(name, cluster string) string {
	s.Helper()
	code := fmt.Sprint("code", s.codes.Add(1))
	s.update(func(ctx context.Context, tx *core.Tx) error {
		return person.AddWebLogin(ctx, tx, person.HashToken(code),
			person.WebLogin{Token: "t-" + name, Cluster: cluster, App: "jupyter"}, time.Minute)
	})
	return code
}

// signIn is the Cookie header of a browser in which a person has opened an app.
func (s *site) signIn(person, cluster, host string) string {
	s.Helper()
	got := s.ask(http.MethodGet, host, signInPath+"?code="+s.code(person, cluster))
	for _, c := range got.cookies {
		if got.status == http.StatusSeeOther && c.Name == cookieName {
			return c.Name + "=" + c.Value
		}
	}
	s.Fatalf("%s is not signed in: %+v", person, got)
	return ""
}

type answer struct {
	status  int
	text    string
	header  http.Header
	cookies []*http.Cookie
}

// ask makes a request, with headers as names and values in turn.
func (s *site) ask(method, host, path string, headers ...string) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, "https://"+host+path, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := s.browser().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{response.StatusCode, string(text), response.Header, response.Cookies()}
}

// raw opens a connection as somebody does who writes their own requests.
func (s *site) raw(host string) net.Conn {
	s.Helper()
	c, err := tls.Dial("tcp", s.address, &tls.Config{RootCAs: s.roots, ServerName: host})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		s.Fatal(err)
	}
	return c
}

func has(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in\n%s", word, text)
		}
	}
}
