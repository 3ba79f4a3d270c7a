package monitor_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/monitor"
	"muster/internal/place"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// joining is what the agent of a node's first boot sends.
func joining(t *testing.T, a *identity.Authority, node string) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err1 := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	key, err2 := ssh.NewPublicKey(public)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(protocol.JoinRequest{
		Node: node, Boot: 1, Token: a.Token(node, 1), HostKey: string(ssh.MarshalAuthorizedKey(key)),
		CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestAGuestJoinsOnlyFromItsOwnPlaceInItsOwnCluster(t *testing.T) {
	db := kindstest.Open(t, t.TempDir()+"/db")
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := db.Update(ctx, func(tx *core.Tx) error {
		g := host.Guest{Machine: inventory.Machine{ID: "g1", Name: "hv-g1", Substrate: "vm", Host: "hv"},
			Allocation: place.Allocation{Share: 1, Cells: []place.Cell{{Cores: []int{1}, MemoryMiB: 1024}}}}
		for _, c := range []string{"c1", "c2"} {
			if err := cluster.Add(ctx, tx, cluster.Cluster{ID: c, Project: "default", Name: c, Spec: spec.Cluster{Name: c},
				Image: "sha256:00", Credential: core.NewSecret([]byte("k")), CreatedBy: "admin"}); err != nil {
				return err
			}
		}
		return errors.Join(
			machine.Add(ctx, tx, inventory.Machine{ID: "hv", Name: "hv", Substrate: "vm", Hosts: true}),
			machine.Add(ctx, tx, inventory.Machine{ID: "m1", Name: "local-1", Substrate: "local"}),
			host.AddGuest(ctx, tx, g, "for a test"),
			cluster.AddSeat(ctx, tx, "c1", cluster.Seat{Name: "n1", Slot: 3}),
			cluster.AddSeat(ctx, tx, "c1", cluster.Seat{Name: "n2", Slot: 4}),
			node.Add(ctx, tx, node.Node{ID: "guest", Cluster: "c1", Name: "n1", Role: protocol.Compute, Queue: "main",
				Class: "vm", MachineID: "g1", Machine: "hv-g1"}),
			node.Add(ctx, tx, node.Node{ID: "local", Cluster: "c1", Name: "n2", Role: protocol.Compute, Queue: "main",
				Class: "local", MachineID: "m1", Machine: "local-1"}),
			node.StartBoot(ctx, tx, "guest", "sha256:00", false), node.StartBoot(ctx, tx, "local", "sha256:00", false),
		)
	}); err != nil {
		t.Fatal(err)
	}
	claims, err := db.Claim(ctx, node.Kind, "test", time.Minute, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range claims {
		if err := db.Update(ctx, func(tx *core.Tx) error {
			return tx.Settle(ctx, claim, core.Settlement{Phase: node.Booting, Never: true})
		}); err != nil {
			t.Fatal(err)
		}
	}
	m := monitor.New(db, authority, "test", slog.New(slog.DiscardHandler))
	m.Schedulers, m.Substrates = drivers.Schedulers(), drivers.Substrates()
	certificates := map[string]*tls.ConnectionState{}
	join := func(h http.Handler, node, from string) int {
		request := httptest.NewRequest(http.MethodPost, "/agent/v1/join", bytes.NewReader(joining(t, authority, node)))
		request.RemoteAddr = from
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, request)
		if answer.Code == http.StatusOK {
			certificates[node] = shows(t, authority, answer.Body.Bytes())
		}
		return answer.Code
	}
	const own, socket = "10.77.0.3:40000", "@"
	for _, c := range []struct {
		what       string
		handler    http.Handler
		node, from string
		want       int
	}{
		{"by a socket of the host", m.Handler(), "guest", socket, http.StatusForbidden},
		{"over a network of machines", m.Handler(), "guest", own, http.StatusForbidden},
		{"within another cluster", m.HandlerWithin("c2"), "guest", own, http.StatusForbidden},
		{"from another node's address", m.HandlerWithin("c1"), "guest", "10.77.0.4:40000", http.StatusForbidden},
		{"a node of the host, from within", m.HandlerWithin("c1"), "local", "10.77.0.4:40000", http.StatusForbidden},
		{"from its own place", m.HandlerWithin("c1"), "guest", own, http.StatusOK},
		{"a node of the host, by its socket", m.Handler(), "local", socket, http.StatusOK},
	} {
		if got := join(c.handler, c.node, c.from); got != c.want {
			t.Errorf("%s: status %d, want %d", c.what, got, c.want)
		}
	}

	// With what it has got then it is known there, and a copy of that is known nowhere else.
	for _, c := range []struct {
		what       string
		handler    http.Handler
		node, from string
		known      bool
	}{
		{"a guest's, from its own place", m.HandlerWithin("c1"), "guest", own, true},
		{"a guest's, by a socket of the host", m.Handler(), "guest", socket, false},
		{"a guest's, within another cluster", m.HandlerWithin("c2"), "guest", own, false},
		{"a guest's, from another node", m.HandlerWithin("c1"), "guest", "10.77.0.4:40000", false},
		{"a guest's, from its own place again", m.HandlerWithin("c1"), "guest", "10.77.0.3:40001", true},
		{"a node's of the host, from within a cluster", m.HandlerWithin("c1"), "local", "10.77.0.4:40000", false},
		{"a node's of the host, over a network", m.HandlerOn("rack"), "local", "10.78.0.4:40000", false},
		{"a node's of the host, by its socket", m.Handler(), "local", socket, true},
	} {
		request := httptest.NewRequest(http.MethodGet, "/agent/v1/config?after=-1", nil)
		request.RemoteAddr, request.TLS = c.from, certificates[c.node]
		answer := httptest.NewRecorder()
		c.handler.ServeHTTP(answer, request)
		if known := answer.Code != http.StatusUnauthorized; known != c.known {
			t.Errorf("%s: status %d: %s", c.what, answer.Code, answer.Body)
		}
	}

	// What it has the database do is its project's.
	for range 2 {
		payer := ""
		request := httptest.NewRequest(http.MethodPost, "/agent/v1/report", nil)
		request.RemoteAddr, request.TLS = socket, certificates["local"]
		m.Known(func(_ http.ResponseWriter, r *http.Request, _ identity.Agent) {
			payer = core.Payer(r.Context())
		})(httptest.NewRecorder(), request)
		if payer != "project default" {
			t.Errorf("its calls are counted for %q", payer)
		}
	}
}

func TestAnAgentReportsNoFasterThanAgentsDo(t *testing.T) {
	db := kindstest.Open(t, t.TempDir()+"/db")
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	m := monitor.New(db, authority, "test", slog.New(slog.DiscardHandler))
	handler, statuses := m.Handler(), map[int]int{}
	for _, node := range []string{"greedy", "modest"} {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
		if err != nil {
			t.Fatal(err)
		}
		request := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
		certificate, _, err := authority.CertifyAgent(request, identity.Agent{Node: node, Boot: 1}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		reply, err := json.Marshal(protocol.JoinReply{Certificate: certificate})
		if err != nil {
			t.Fatal(err)
		}
		shown := shows(t, authority, reply)
		clear(statuses)
		for range map[string]int{"greedy": 200, "modest": 20}[node] {
			request := httptest.NewRequest(http.MethodPost, "/agent/v1/report", bytes.NewReader([]byte("{}")))
			request.RemoteAddr, request.TLS = "@", shown
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			statuses[answer.Code]++
		}
		if refused := statuses[http.StatusTooManyRequests]; node == "greedy" && refused < 50 || node == "modest" && refused > 0 {
			t.Errorf("of what %s reports is answered %v", node, statuses)
		}
	}
}

// shows is a connection of an agent that shows the certificate which it has been given.
func shows(t *testing.T, a *identity.Authority, reply []byte) *tls.ConnectionState {
	t.Helper()
	var joined protocol.JoinReply
	if err := json.Unmarshal(reply, &joined); err != nil {
		t.Fatal(err)
	}
	var chain []*x509.Certificate
	for _, text := range []string{joined.Certificate, a.AgentsPEM()} {
		block, _ := pem.Decode([]byte(text))
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, certificate)
	}
	return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{chain}}
}
