package rotation_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/crypto/ssh"

	"muster/internal/core"
	"muster/internal/door/rotation"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

func update(t *testing.T, s *core.Store, f func(context.Context, *core.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

// keeper is one controller's.
func keeper(t *testing.T, s *core.Store) *rotation.Rotator {
	t.Helper()
	k := &rotation.Rotator{DB: s, Authority: &identity.Authority{}, Log: slog.New(slog.DiscardHandler)}
	if err := k.Establish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

// steps lets a controller look until a use has no more generations than one.
func steps(t *testing.T, k *rotation.Rotator, done func() bool) {
	t.Helper()
	load(t, k)
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
		if err := k.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		load(t, k)
	}
}

func load(t *testing.T, k *rotation.Rotator) {
	t.Helper()
	if err := k.DB.View(t.Context(), func(tx *core.Tx) error { return k.Load(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, s *core.Store, o rotation.Order) {
	t.Helper()
	nothing := time.Duration(0)
	o.Announce, o.Keep, o.By = &nothing, &nothing, "admin"
	update(t, s, func(ctx context.Context, tx *core.Tx) error { return rotation.Begin(ctx, tx, o) })
}

func TestTheFirstGenerationsAreThoseOfTheRoot(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		root := identity.NewRoot()
		update(t, s, func(ctx context.Context, tx *core.Tx) error { _, err := tx.Secret(ctx, "root", root); return err })
		k, old := keeper(t, s), must(identity.Open(root))(t)
		a := k.Authority
		if a.AgentsPEM() != old.AgentsPEM() || a.UserCA() != old.UserCA() || a.HostCA() != old.HostCA() ||
			a.LoginCA() != old.LoginCA() || a.GatewayCA() != old.GatewayCA() ||
			a.ExternalCA() != old.ExternalCA() || a.Token("n", 1) != old.Token("n", 1) {
			t.Error("a site that is older than rotation has other keys now")
		}
		if again := keeper(t, s); again.Authority.UserCA() != a.UserCA() {
			t.Error("another controller has others")
		}
	})
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestARotationThatWasInterruptedIsContinuedByAnotherController: one begins and is gone; the other ends it.
func TestARotationThatWasInterruptedIsContinuedByAnotherController(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		first, second := keeper(t, s), keeper(t, s)
		was := map[string]string{"users": first.Authority.UserCA(), "agents": first.Authority.AgentsPEM(),
			"token": first.Authority.Token("n", 1)}
		begin(t, s, rotation.Order{Uses: identity.Uses()})
		load(t, second)
		a := second.Authority
		if lines := strings.Split(a.UserCA(), "\n"); len(lines) != 2 || lines[0] != was["users"] {
			t.Errorf("nodes are to believe both, and the old one signs: %q", lines)
		}
		if a.Token("n", 1) != was["token"] || a.AgentsPEM() != was["agents"] {
			t.Error("something is signed with the new one at once")
		}
		err := s.Update(t.Context(), func(tx *core.Tx) error {
			return rotation.Begin(t.Context(), tx, rotation.Order{Uses: []identity.Use{identity.Agents}, By: "admin"})
		})
		if !errors.Is(err, rotation.ErrUnderWay) {
			t.Error("a second rotation of the same began:", err)
		}
		both := false
		steps(t, second, func() bool {
			if a.Several(identity.BootTokens) && a.Signing(identity.BootTokens) == 2 {
				both = both || a.CheckToken("n", 1, was["token"]) && a.Token("n", 1) != was["token"]
			}
			return !slices.ContainsFunc(identity.Uses(), a.Several)
		})
		if !both {
			t.Error("there was no time in which both generations of tokens were good")
		}
		if a.CheckToken("n", 1, was["token"]) || strings.Contains(a.UserCA(), was["users"]) || a.AgentsPEM() == was["agents"] {
			t.Error("the old ones are believed still")
		}
		load(t, first) // the one that was away
		if first.Authority.UserCA() != a.UserCA() {
			t.Error("the other controller stays behind")
		}
	})
}

func TestNobodyIsLeftBehind(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		k := keeper(t, s)
		sleeper(t, s, url)
		begin(t, s, rotation.Order{Uses: []identity.Use{identity.Agents, identity.BootTokens}})
		waits := func() (all string) {
			update(t, s, func(ctx context.Context, tx *core.Tx) error {
				generations, _, err := authority.Generations(ctx, tx)
				for _, g := range generations {
					all += g.Waits
				}
				return err
			})
			return all
		}
		steps(t, k, func() bool {
			return k.Authority.Signing(identity.BootTokens) == 2 && strings.Contains(waits(), "default/cfd n1")
		})
		// longer than a new one settles
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if err := k.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if load(t, k); !k.Authority.Several(identity.BootTokens) || !k.Authority.Several(identity.Agents) {
			t.Fatal("a node that sleeps was left behind")
		}
		update(t, s, func(ctx context.Context, tx *core.Tx) error { // it wakes, and joins
			return authority.SaveTrust(ctx, tx, authority.Trust{Subject: "n1", Boot: 1, Agents: 1, Tokens: 2, Hosts: 1})
		})
		steps(t, k, func() bool { return !k.Authority.Several(identity.BootTokens) })
		if !k.Authority.Several(identity.Agents) {
			t.Error("it was shown the old authority, which is gone")
		}
		update(t, s, func(ctx context.Context, tx *core.Tx) error { return authority.RaiseTrust(ctx, tx, "n1", 1, 2) })
		steps(t, k, func() bool { return !k.Authority.Several(identity.Agents) })
	})
}

func TestAfterTheDeadlineNobodyIsWaitedFor(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		k := keeper(t, s)
		sleeper(t, s, url)
		begin(t, s, rotation.Order{Uses: []identity.Use{identity.Agents}, Deadline: 5 * time.Second})
		steps(t, k, func() bool { return !k.Authority.Several(identity.Agents) })
	})
}

// sleeper is a node that sleeps with its cluster, and lives by the first generations.
func sleeper(t *testing.T, s *core.Store, url string) {
	t.Helper()
	update(t, s, func(ctx context.Context, tx *core.Tx) error {
		err := machine.Add(ctx, tx, inventory.Machine{ID: "m1", Name: "m1", Substrate: "local",
			Facts: inventory.Facts{Arch: "amd64", NUMA: []inventory.NUMANode{{CPUs: "0-1"}}}})
		if err == nil {
			err = cluster.Add(ctx, tx, cluster.Cluster{ID: "c1", Project: "default", Name: "cfd", Spec: spec.Cluster{Name: "cfd"},
				Image: "sha256:00", Credential: core.NewSecret([]byte("k")), CreatedBy: "admin"})
		}
		if err == nil {
			err = cluster.AddSeat(ctx, tx, "c1", cluster.Seat{Name: "n1", Slot: 3})
		}
		if err == nil {
			err = node.Add(ctx, tx, node.Node{ID: "n1", Cluster: "c1", Name: "n1", Role: protocol.Compute, Queue: "main",
				Class: "local", MachineID: "m1", Machine: "m1"})
		}
		if err != nil {
			return err
		}
		return authority.SaveTrust(ctx, tx, authority.Trust{Subject: "n1", Boot: 1, Agents: 1, Tokens: 1, Hosts: 1})
	})
	driver := "sqlite"
	if strings.Contains(url, "://") {
		driver = "pgx"
	}
	db := must(sql.Open(driver, url))(t)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `UPDATE node SET boot = 1, phase = 'pending', sleeps = 1`); err != nil {
		t.Fatal(err)
	}
}

// TestWhatAStolenAuthoritySignsIsRefusedOnceItIsGone: agents' certificates and SSH certificates, also over a connection that was
// there before.
func TestWhatAStolenAuthoritySignsIsRefusedOnceItIsGone(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/muster.db")
	root := identity.NewRoot()
	update(t, s, func(ctx context.Context, tx *core.Tx) error { _, err := tx.Secret(ctx, "root", root); return err })
	k, stolen := keeper(t, s), must(identity.Open(root))(t)
	a := k.Authority

	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(t)
	forged, _, err := stolen.CertifyAgent(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
		identity.Agent{Node: "n1", Boot: 1}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(forged))
	config := must(a.ServerTLS(time.Now()))(t)
	meet := func(believes, name string) (*tls.ConnectionState, error) {
		t.Helper()
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(believes))
		listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer listener.Close()
		near := must(net.Dial("tcp", listener.Addr().String()))(t)
		defer near.Close()
		far := must(listener.Accept())(t)
		defer far.Close()
		server := tls.Server(far, config)
		done := make(chan error, 1)
		go func() { done <- server.HandshakeContext(t.Context()) }()
		client := tls.Client(near, &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS13,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}, nil
			}})
		if err := client.HandshakeContext(t.Context()); err != nil {
			return nil, err
		}
		if err := <-done; err != nil {
			return nil, err
		}
		state := server.ConnectionState()
		return &state, nil
	}
	old := a.AgentsPEM()
	before, err := meet(old, identity.ServerName)
	if err != nil || a.LivesBy(before) != 1 {
		t.Fatalf("the attack does not even work before: %v, %d", err, a.LivesBy(before))
	}
	begin(t, s, rotation.Order{Uses: []identity.Use{identity.Agents}})
	steps(t, k, func() bool { return a.Signing(identity.Agents) == 2 || !a.Several(identity.Agents) })
	steps(t, k, func() bool { return !a.Several(identity.Agents) })
	if state, err := meet(a.AgentsPEM(), identity.ServerName); err == nil {
		t.Errorf("a certificate of the old authority is accepted: %+v", state.VerifiedChains[0][0].Subject)
	}
	if a.LivesBy(before) != 0 {
		t.Error("a connection that was there before is believed still")
	}

	public, _, _ := ed25519.GenerateKey(rand.Reader)
	line := string(ssh.MarshalAuthorizedKey(must(ssh.NewPublicKey(public))(t)))
	for use, sign := range map[identity.Use]func() (string, error){
		identity.SSHHosts:  func() (string, error) { return stolen.CertifyHost(line, []string{"h"}, time.Now()) },
		identity.SSHLogins: func() (string, error) { return stolen.CertifyLogin(line, "p", "t", time.Now(), time.Hour) },
	} {
		text := must(sign())(t)
		certificate := must(ssh.ParsePublicKey(must2(ssh.ParseAuthorizedKey([]byte(text)))(t).Marshal()))(t).(*ssh.Certificate)
		believed := func() bool {
			return use == identity.SSHHosts && a.IsHostCA(certificate.SignatureKey) || use == identity.SSHLogins &&
				a.IsLoginCA(certificate.SignatureKey)
		}
		if !believed() {
			t.Fatalf("%s: the attack does not even work before", use)
		}
		begin(t, s, rotation.Order{Uses: []identity.Use{use}, Now: true})
		if load(t, k); believed() {
			t.Errorf("%s: what the old one signed is believed", use)
		}
	}
}

func must2(k ssh.PublicKey, _ string, _ []string, _ []byte, err error) func(*testing.T) ssh.PublicKey {
	return must(k, err)
}
