package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/door/gateway/target"
	"muster/internal/identity"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
)

// fixture is a gateway with one place behind it: an SSH server that runs "echo" (what comes in goes out) and "exit N".
type fixture struct {
	*testing.T
	g       *Gateway
	address string
	key     ssh.Signer // alice's
}

type onePlace struct {
	authority *identity.Authority
	dial      func(context.Context) (net.Conn, error)
}

func (s onePlace) Places(_ context.Context, _ *core.Tx, projects []string, name string) ([]Place, error) {
	if !slices.Contains(projects, "aero") || name != "" && name != "cfd" {
		return nil, nil
	}
	return []Place{{
		Kind: KindCluster, ID: "c1", Project: "aero", Name: "cfd", Admits: func(string) bool { return true },
		Open: func(_ context.Context, _ *core.Tx, person string) (Target, error) {
			return Target{Target: target.Target{
				Project: "aero", Name: "cfd", Account: person, Dial: s.dial, Host: "head.cfd:22",
				Known: ssh.InsecureIgnoreHostKey(),
				Certify: func(key ssh.PublicKey) (string, error) {
					return s.authority.CertifyUser(string(ssh.MarshalAuthorizedKey(key)), person, person, time.Now(), time.Minute)
				},
			}}, nil
		},
	}}, nil
}

func newFixture(t *testing.T, change func(*Gateway)) fixture {
	t.Helper()
	db := kindstest.Open(t, t.TempDir()+"/db")
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	s := fixture{T: t, key: newKey(t)}
	s.update(db, func(ctx context.Context, tx *core.Tx) error {
		return errors.Join(person.Add(ctx, tx, person.Person{Name: "alice"}),
			person.AddProject(ctx, tx, person.Project{Name: "aero"}),
			person.SetMember(ctx, tx, person.Membership{Project: "aero", Person: "alice", Role: access.Member}),
			s.addKey(ctx, tx))
	})
	s.g = &Gateway{Name: "g1", Hosts: []string{"localhost"}, DB: db, Authority: authority,
		Sources:    []Source{onePlace{authority, startPlace(t, authority)}},
		Recordings: t.TempDir() + "/recordings", Reserve: 1, Log: slog.New(slog.DiscardHandler), Limits: UsualLimits()}
	s.g.Limits.Look = 50 * time.Millisecond
	if change != nil {
		change(s.g)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.g.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s fixture) addKey(ctx context.Context, tx *core.Tx) error {
	key := s.key.PublicKey()
	return person.AddKey(ctx, tx, person.Key{Person: "alice", Fingerprint: ssh.FingerprintSHA256(key),
		Line: string(ssh.MarshalAuthorizedKey(key))})
}

func (s fixture) update(db *core.Store, f func(context.Context, *core.Tx) error) {
	s.Helper()
	if err := db.Update(context.Background(), func(tx *core.Tx) error { return f(context.Background(), tx) }); err != nil {
		s.Fatal(err)
	}
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// startPlace is an SSH server that trusts the authority.
func startPlace(t *testing.T, authority *identity.Authority) func(context.Context) (net.Conn, error) {
	t.Helper()
	checker := &ssh.CertChecker{IsUserAuthority: func(key ssh.PublicKey) bool {
		return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) == authority.UserCA()
	}}
	config := &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate}
	config.AddHostKey(newKey(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go servePlace(conn, config)
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}
}

func servePlace(conn net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for opened := range channels {
		channel, requests, err := opened.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				_ = r.Reply(true, nil)
				var command struct{ Text string }
				if r.Type != "exec" || ssh.Unmarshal(r.Payload, &command) != nil {
					continue
				}
				if command.Text == "break off" { // as a head does that ends all that somebody has there
					_, _ = io.Copy(io.Discard, io.LimitReader(channel, 1))
					_ = conn.Close()
					return
				}
				var code uint32
				if n, _ := fmt.Sscanf(command.Text, "exit %d", &code); n == 0 {
					_, _ = io.Copy(channel, channel)
				}
				_, _ = channel.Stderr().Write([]byte("told\n"))
				_ = channel.CloseWrite()
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
				_ = channel.Close()
			}
		}()
	}
}

// come logs in.
func (s fixture) come(user string, key ssh.Signer) (*ssh.Client, error) {
	return ssh.Dial("tcp", s.address, &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 20 * time.Second})
}

// run runs a command, and returns what it wrote and its exit code.
func (s fixture) run(c *ssh.Client, command, input string) (out, errs string, code int) {
	s.Helper()
	session, err := c.NewSession()
	if err != nil {
		s.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = strings.NewReader(input), &stdout, &stderr
	err = session.Run(command)
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitStatus()
	case err != nil:
		s.Fatal(err)
	}
	return stdout.String(), stderr.String(), code
}

func (s fixture) client(user string) *ssh.Client {
	s.Helper()
	c, err := s.come(user, s.key)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	return c
}

func TestASessionIsCarriedAndWrittenDown(t *testing.T) {
	s := newFixture(t, nil)
	c := s.client("alice+aero/cfd")
	long := strings.Repeat("0123456789", 1<<18)
	if out, errs, code := s.run(c, "echo", long); out != long || errs != "told\n" || code != 0 {
		t.Errorf("%d bytes came back, %q, %d", len(out), errs, code)
	}
	if _, _, code := s.run(c, "exit 42", ""); code != 42 {
		t.Errorf("exit code %d", code)
	}
	_ = c.Close()
	var sessions []person.Session
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		err := s.g.DB.View(t.Context(), func(tx *core.Tx) (err error) {
			sessions, err = person.Sessions(t.Context(), tx, person.SessionsOf{Ended: true, Limit: 10})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(sessions) == 1 && !sessions[0].EndedAt.IsZero() {
			break
		}
	}
	if len(sessions) != 1 {
		t.Fatal(sessions)
	}
	if got := sessions[0]; got.Person != "alice" || got.What != "exec" || got.Outcome != "closed by the person" ||
		got.Received != int64(len(long)) || got.Sent != int64(len(long)+2*len("told\n")) || got.EndedAt.IsZero() {
		t.Errorf("%+v", got)
	}
}

func TestStrangersAndOtherPlacesAreRefused(t *testing.T) {
	s := newFixture(t, nil)
	if _, err := s.come("cfd", newKey(t)); err == nil {
		t.Error("a key that is nobody's is let in")
	}
	if _, errs, code := s.run(s.client("nosuch"), "echo", ""); code != 255 ||
		!strings.Contains(errs, "you can log in to aero/cfd") {
		t.Error(errs, code)
	}
	if _, err := s.client("cfd").Dial("tcp", "192.0.2.1:80"); err == nil {
		t.Error("a port of another host is forwarded")
	}
}

func TestASessionEndsWithWhatLetItIn(t *testing.T) {
	for name, take := range map[string]func(context.Context, *core.Tx, fixture) error{
		"key": func(ctx context.Context, tx *core.Tx, s fixture) error {
			return person.RemoveKey(ctx, tx, "alice", ssh.FingerprintSHA256(s.key.PublicKey()))
		},
		"membership": func(ctx context.Context, tx *core.Tx, _ fixture) error {
			return person.RemoveMember(ctx, tx, "aero", "alice")
		},
		"role": func(ctx context.Context, tx *core.Tx, _ fixture) error {
			return person.SetMember(ctx, tx, person.Membership{Project: "aero", Person: "alice", Role: access.Viewer})
		},
		"person": func(ctx context.Context, tx *core.Tx, _ fixture) error {
			return person.Change(ctx, tx, person.Person{Name: "alice", Disabled: true})
		},
		"somebody": func(ctx context.Context, tx *core.Tx, _ fixture) error {
			sessions, err := person.Sessions(ctx, tx, person.SessionsOf{Limit: 10})
			for _, one := range sessions {
				err = errors.Join(err, person.WantSessionEnded(ctx, tx, one.ID, "bob"))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, nil)
			session, err := s.client("cfd").NewSession()
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			session.Stderr = &errs
			if _, err := session.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			if err := session.Start("echo"); err != nil {
				t.Fatal(err)
			}
			s.update(s.g.DB, func(ctx context.Context, tx *core.Tx) error { return take(ctx, tx, s) })
			ended := make(chan error, 1)
			go func() { ended <- session.Wait() }()
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				t.Fatal("it goes on")
			}
			if !strings.Contains(errs.String(), "this session ends: ") {
				t.Errorf("the person was told %q", errs.String())
			}
		})
	}
}

// TestWhomAClusterShutsOutFirstIsToldWhyAllTheSame: its nodes may hear of it before the gateway looks.
func TestWhomAClusterShutsOutFirstIsToldWhyAllTheSame(t *testing.T) {
	s := newFixture(t, func(g *Gateway) { g.Limits.Look = time.Hour })
	session, err := s.client("cfd").NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	session.Stderr = &errs
	input, err := session.StdinPipe()
	if err == nil {
		err = session.Start("break off")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.update(s.g.DB, func(ctx context.Context, tx *core.Tx) error { return person.RemoveMember(ctx, tx, "aero", "alice") })
	if _, err := input.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := session.Wait(); err == nil || !strings.Contains(errs.String(), "this session ends: you may no longer log in to aero/cfd") {
		t.Errorf("%v, and was told %q", err, errs.String())
	}
}

func TestManyWhoSayNothingKeepNobodyOut(t *testing.T) {
	const room, silent = 16, 400
	s := newFixture(t, func(g *Gateway) { g.Limits.PreAuth = room })
	c := s.client("cfd")
	var open []net.Conn
	for range silent {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	if out, _, _ := s.run(s.client("cfd"), "echo", "in"); out != "in" {
		t.Error("nobody comes in")
	}
	if out, _, _ := s.run(c, "echo", "still here"); out != "still here" {
		t.Error("who was in is out")
	}
	s.g.preauthLimit.mu.Lock()
	waiting := s.g.preauthLimit.waiting.Len()
	s.g.preauthLimit.mu.Unlock()
	if waiting > room {
		t.Errorf("%d wait where there is room for %d", waiting, room)
	}
}

func TestTenThousandBadHandshakesStopNothing(t *testing.T) {
	s := newFixture(t, nil)
	c := s.client("cfd")
	const bad, atOnce = 10_000, 50
	turns := make(chan int)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for n := range turns {
				conn, err := net.Dial("tcp", s.address)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = conn.Write([]byte([]string{"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n\xff\xff\xff\xff", "\x00"}[n%3]))
				_ = conn.Close()
			}
		})
	}
	for n := range bad {
		turns <- n
		if n%2000 == 0 {
			if out, _, _ := s.run(c, "echo", "still here"); out != "still here" {
				t.Error("who was in is out")
			}
		}
	}
	close(turns)
	all.Wait()
	if out, _, _ := s.run(s.client("cfd"), "echo", "in"); out != "in" {
		t.Error("nobody comes in")
	}
}

func TestOnePersonMayNotTakeEverything(t *testing.T) {
	s := newFixture(t, func(g *Gateway) { g.Limits.PerPerson, g.Limits.Each, g.Limits.Handshake = 2, 2, 10*time.Second })
	first, second := s.client("cfd"), s.client("cfd")
	for _, c := range []*ssh.Client{first, second} {
		if out, _, _ := s.run(c, "echo", "in"); out != "in" { // now it is known to be in
			t.Error("does not come in")
		}
	}
	third := s.client("cfd")
	if _, errs, code := s.run(third, "echo", ""); code != 255 || !strings.Contains(errs, "alice has 2 connections open") {
		t.Error(errs, code)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); _ = third.Wait() }()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("who is over the limit stays for as long as they like")
	}

	for range 2 {
		if _, err := first.NewSession(); err != nil {
			t.Error(err)
		}
	}
	if _, err := second.NewSession(); err == nil ||
		!strings.Contains(err.Error(), "alice has 2 sessions and forwarded connections open") {
		t.Errorf("a third channel: %v", err)
	}
}

func TestWhatIsSaidOfAChannelIsBounded(t *testing.T) {
	s := newFixture(t, nil)
	if _, _, err := s.client("cfd").OpenChannel("session", make([]byte, 64<<10)); err == nil ||
		!strings.Contains(err.Error(), "too much is said of a channel") {
		t.Error(err)
	}
}

func TestSessionsOfOnePersonHaveAPace(t *testing.T) {
	s := newFixture(t, func(g *Gateway) { g.Limits.Sessions = 2 })
	for range 2 {
		if out, _, _ := s.run(s.client("cfd"), "echo", "in"); out != "in" {
			t.Error("does not come in")
		}
	}
	var refused atomic.Bool
	var all sync.WaitGroup
	for _, c := range []*ssh.Client{s.client("cfd"), s.client("cfd"), s.client("cfd")} { // two may be possible again meanwhile
		all.Go(func() {
			_, errs, code := s.run(c, "echo", "")
			if code == 255 && strings.Contains(errs, "alice has made 2 sessions in a short time") {
				refused.Store(true)
			}
		})
	}
	all.Wait()
	if !refused.Load() {
		t.Error("a third session within the second is let in")
	}
}
