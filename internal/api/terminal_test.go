package api_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	apiv1 "muster/api/v1"
	"muster/internal/api"
	"muster/internal/core"
	"muster/internal/door/files"
	"muster/internal/door/gateway"
	"muster/internal/door/gateway/client"
	"muster/internal/door/gateway/target"
	"muster/internal/door/terminal"
	"muster/internal/identity"
	"muster/internal/kinds/person"
)

// echoing is aero's cluster cfd as the gateway sees it: its head greets who comes, says again what it hears, and serves the files
// below a directory of this host.
type echoing struct {
	authority *identity.Authority
	home      string
}

func (e echoing) Places(_ context.Context, _ *core.Tx, projects []string, name string) ([]gateway.Place, error) {
	if !slices.Contains(projects, "aero") || name != "" && name != "cfd" {
		return nil, nil
	}
	open := func(_ context.Context, _ *core.Tx, person string) (gateway.Target, error) {
		return gateway.Target{Target: target.Target{Project: "aero", Name: "cfd", Account: person, Dial: e.dial,
			Host: "head.cfd:22", Known: ssh.InsecureIgnoreHostKey(),
			Certify: func(key ssh.PublicKey) (string, error) {
				return e.authority.CertifyUser(string(ssh.MarshalAuthorizedKey(key)), person, person, time.Now(), time.Minute)
			},
		}}, nil
	}
	return []gateway.Place{{Kind: gateway.KindCluster, ID: "c-aero", Project: "aero", Name: "cfd",
		Admits: func(string) bool { return true }, Open: open}}, nil
}

func (e echoing) dial(ctx context.Context) (net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	near, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	far, err := l.Accept()
	if err == nil {
		go e.serve(far)
	}
	return near, err
}

func (e echoing) serve(conn net.Conn) {
	checker := &ssh.CertChecker{IsUserAuthority: func(key ssh.PublicKey) bool {
		return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) == e.authority.UserCA()
	}}
	config := &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return
	}
	config.AddHostKey(key)
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
				switch r.Type {
				case "shell":
					_, _ = channel.Write([]byte("this is the head"))
					go func() { _, _ = io.Copy(channel, channel) }()
				case "subsystem":
					go func() {
						defer channel.Close()
						if server, err := sftp.NewServer(channel, sftp.WithServerWorkingDirectory(e.home)); err == nil {
							_ = server.Serve()
						}
					}()
				}
			}
		}()
	}
}

// throughGateway has an API open its terminals, and come to files, through a gateway.
func throughGateway(t *testing.T) func(*api.API) { return throughGatewayTo(t, t.TempDir()) }

// throughGatewayTo has them come to these files.
func throughGatewayTo(t *testing.T, home string) func(*api.API) {
	return func(a *api.API) {
		g := &gateway.Gateway{Name: "g1", Hosts: []string{"localhost"}, DB: a.DB, Authority: a.Authority,
			Sources: []gateway.Source{echoing{a.Authority, home}}, Recordings: t.TempDir(), Log: slog.New(slog.DiscardHandler),
			Limits: gateway.UsualLimits()}
		inside := client.New(a.Authority, g.Log)
		a.Terminals = terminal.New(inside, terminal.UsualLimits(), nil)
		a.Files = files.New(inside, files.UsualLimits(), nil)
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- g.Serve(ctx, inside.Door) }()
		t.Cleanup(func() {
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// shown is what a browser shows of a terminal.
type shown struct {
	*testing.T
	socket *websocket.Conn
	id     string
	text   bytes.Buffer
	ended  string
}

// openTerminal opens a terminal in a browser; nil if it may not.
func openTerminal(t *testing.T, s *httptest.Server, query string, headers ...string) (*shown, int) {
	t.Helper()
	all := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		all.Set(headers[i], headers[i+1])
	}
	socket, response, err := websocket.Dial(t.Context(), s.URL+"/v1/clusters/aero%2Fcfd/terminal"+query,
		&websocket.DialOptions{HTTPHeader: all, Subprotocols: []string{apiv1.TerminalProtocol}})
	if err != nil {
		if response == nil {
			t.Fatal(err)
		}
		return nil, response.StatusCode
	}
	t.Cleanup(func() { _ = socket.CloseNow() })
	if socket.Subprotocol() != apiv1.TerminalProtocol {
		t.Errorf("it speaks %q", socket.Subprotocol())
	}
	return &shown{T: t, socket: socket}, response.StatusCode
}

// until reads until something is so, or there is no more.
func (s *shown) until(enough func() bool) bool {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	for !enough() {
		kind, message, err := s.socket.Read(ctx)
		if err != nil {
			return false
		}
		if kind == websocket.MessageBinary {
			s.text.Write(message)
			continue
		}
		var m struct{ Terminal, Ended string }
		if err := json.Unmarshal(message, &m); err != nil {
			s.Fatal(err)
		}
		s.id, s.ended = s.id+m.Terminal, s.ended+m.Ended
	}
	return true
}

func (s *shown) shows(text string) {
	s.Helper()
	if !s.until(func() bool { return strings.Contains(s.text.String(), text) }) {
		s.Fatalf("%q is not shown, but %q: %s", text, s.text.String(), s.ended)
	}
}

func TestATerminalInABrowserGoesThroughTheGateway(t *testing.T) {
	s, db := server(t, 2, throughGateway(t))
	tenants(t, db)
	enterable(t, db)
	cookie := signIn(t, s, `{"token": "member"}`)
	own := []string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Origin", s.URL}
	one, _ := openTerminal(t, s, "", own...)
	one.shows("this is the head")
	if err := one.socket.Write(t.Context(), websocket.MessageBinary, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	one.shows("hello")
	got := as(t, s, "member", "GET", "/v1/sessions", "")
	var sessions apiv1.List[apiv1.Session]
	if err := json.Unmarshal([]byte(got.text), &sessions); err != nil || len(sessions.Items) != 1 {
		t.Fatal(got.text)
	}
	if one := sessions.Items[0]; one.Person != "member" || !strings.HasPrefix(one.Remote, "127.0.0.1:") || one.EndedAt != nil {
		t.Errorf("%+v", one)
	}
	_ = one.socket.CloseNow()

	other := signIn(t, s, `{"token": "member"}`)
	stranger, _ := openTerminal(t, s, "?terminal="+one.id, "Cookie", other, "Sec-Fetch-Site", "same-origin")
	if stranger.until(func() bool { return false }); stranger.ended != "this terminal has ended" || stranger.text.Len() > 0 {
		t.Errorf("another browser is shown %q, and told %q", stranger.text.String(), stranger.ended)
	}
	again, _ := openTerminal(t, s, "?terminal="+one.id, own...)
	again.shows("hello")

	if response, _ := browse(t, s, cookie, "DELETE", "/v1/console/session", ""); response.StatusCode != 204 {
		t.Fatal(response.Status)
	}
	if again.until(func() bool { return false }); !strings.Contains(again.ended, "you are signed out") {
		t.Errorf("it goes on after its browser was signed out: %q", again.ended)
	}
}

func TestTerminalsAreForThoseWhoMayEnterAndForTheConsolesPages(t *testing.T) {
	s, db := server(t, 2, throughGateway(t))
	tenants(t, db)
	enterable(t, db)
	cookie := signIn(t, s, `{"token": "member"}`)
	for name, c := range map[string]struct {
		query  string
		header []string
		status int
	}{
		"a token":           {"", []string{"Authorization", "Bearer member"}, 101},
		"nobody":            {"", nil, 401},
		"who only looks":    {"", []string{"Authorization", "Bearer viewer"}, 403},
		"another project's": {"", []string{"Authorization", "Bearer nobody"}, 404},
		"an app's page":     {"", []string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, 403},
		"an old browser's":  {"", []string{"Cookie", cookie, "Origin", "https://evil.test"}, 403},
		"another's socket":  {"", []string{"Authorization", "Bearer member", "Origin", "https://evil.test"}, 403},
		"no node of it":     {"?node=n9", []string{"Authorization", "Bearer member"}, 404},
		"no size":           {"?rows=0", []string{"Authorization", "Bearer member"}, 422},
	} {
		if _, status := openTerminal(t, s, c.query, c.header...); status != c.status {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
	}
	if got := as(t, s, "member", "GET", "/v1/clusters/aero%2Fcfd/terminal", ""); got.status != http.StatusUpgradeRequired {
		t.Errorf("without a WebSocket: %d %s", got.status, got.text)
	}
}

func TestATerminalEndsWithTheMembership(t *testing.T) {
	s, db := server(t, 2, throughGateway(t))
	tenants(t, db)
	enterable(t, db)
	one, _ := openTerminal(t, s, "", "Authorization", "Bearer member")
	one.shows("this is the head")
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		return person.RemoveMember(t.Context(), tx, "aero", "member")
	}); err != nil {
		t.Fatal(err)
	}
	if one.until(func() bool { return false }); one.ended == "" {
		t.Errorf("it goes on: %q", one.text.String())
	}
}
