package web

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
	"muster/internal/spec"
)

func TestACodeSignsOneBrowserInToOneAppOnce(t *testing.T) {
	s := newSite(t)
	s.serves("caero", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "aero's app greets ", r.Header.Get("X-Muster-User"))
	})
	s.serves("cbio", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "bio's app") })

	stranger := s.ask("GET", aero, "/lab")
	if stranger.status != http.StatusUnauthorized {
		t.Error(stranger)
	}
	has(t, stranger.text, "muster open aero/cfd jupyter")
	if missing := s.ask("GET", "nothing--cfd--aero.apps.test", "/lab"); missing.status != stranger.status ||
		strings.ReplaceAll(missing.text, "nothing", "jupyter") != stranger.text {
		t.Error("a stranger learns which apps there are:", missing)
	}

	code := s.code("alice", "caero")
	if got := s.ask("GET", bio, signInPath+"?code="+code); got.status != http.StatusUnauthorized {
		t.Error("a code opens another app:", got)
	}
	in := s.ask("GET", aero, signInPath+"?code="+code)
	if in.status != http.StatusSeeOther || in.header.Get("Location") != "/" || len(in.cookies) != 1 ||
		in.header.Get("Clear-Site-Data") != `"cache"` {
		t.Fatal(in)
	}
	if c := in.cookies[0]; !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" || c.Path != "/" ||
		c.MaxAge > 3600 {
		t.Errorf("%+v", c)
	}
	if got := s.ask("GET", aero, signInPath+"?code="+code); got.status != http.StatusUnauthorized || len(got.cookies) != 0 {
		t.Error("a code works twice:", got)
	}
	cookie := cookieName + "=" + in.cookies[0].Value
	if got := s.ask("GET", aero, "/", "Cookie", cookie); got.status != http.StatusOK || got.text != "aero's app greets alice" {
		t.Error(got)
	}
	if got := s.ask("GET", bio, "/", "Cookie", cookie); got.status != http.StatusUnauthorized {
		t.Error("the cookie of one app opens another:", got)
	}
	if got := s.ask("GET", aero, "/", "Cookie", cookie+"; "+cookieName+"=planted"); got.status != http.StatusUnauthorized {
		t.Error("a planted cookie is let pass:", got)
	}
	for _, person := range []string{"vera", "mallory"} { // a viewer, and a member of another project
		if got := s.ask("GET", aero, signInPath+"?code="+s.code(person, "caero")); got.status != http.StatusForbidden ||
			len(got.cookies) != 0 {
			t.Errorf("%s is let in: %+v", person, got)
		}
	}
	if err := s.db.View(t.Context(), func(tx *core.Tx) error {
		entries, err := person.Entries(t.Context(), tx, person.EntriesOf{Limit: 10})
		if len(entries) != 1 || entries[0].Person != "alice" || entries[0].Door != person.WebDoor ||
			entries[0].Project != "aero" || entries[0].Object != "cfd/jupyter" {
			t.Errorf("the audit log: %+v", entries)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestPagesOfOtherSitesAndOtherAppsGetNothingDone(t *testing.T) {
	s := newSite(t)
	s.serves("caero", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "done") })
	cookie := s.signIn("alice", "caero", aero)
	for name, tc := range map[string]struct {
		method  string
		headers []string
		want    int
	}{
		"its own page": {"POST", []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://" + aero}, 200},
		"an address typed in": {"GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest",
			"document"}, 200},
		"a link elsewhere": {"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
			"Sec-Fetch-Dest", "document"}, 200},
		"a form elsewhere": {"POST", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
			"Sec-Fetch-Dest", "document"}, 403},
		"a frame elsewhere": {"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
			"Sec-Fetch-Dest", "iframe"}, 403},
		"a script of another app": {"GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors",
			"Sec-Fetch-Dest", "script"}, 403},
		"a form of another app": {"POST", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate",
			"Sec-Fetch-Dest", "document"}, 403},
		"a WebSocket of another app": {"GET", []string{"Origin", "https://" + bio, "Connection", "Upgrade", "Upgrade",
			"websocket"}, 403},
		"a WebSocket of its own":      {"GET", []string{"Origin", "https://" + aero}, 200},
		"an old browser, elsewhere":   {"POST", []string{"Origin", "http://" + aero}, 403},
		"a page without an origin":    {"POST", []string{"Origin", "null"}, 403},
		"a program":                   {"POST", nil, 200},
		"a worker for all its pages":  {"GET", []string{"Sec-Fetch-Site", "same-origin", "Service-Worker", "script"}, 403},
		"a preflight of another site": {"OPTIONS", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://" + bio}, 403},
	} {
		if got := s.ask(tc.method, aero, "/", append(tc.headers, "Cookie", cookie)...); got.status != tc.want {
			t.Errorf("%s: %d, want %d", name, got.status, tc.want)
		}
	}
}

func TestTheAppGetsTheRequestAsItWasLessWhatIsOurs(t *testing.T) {
	s := newSite(t)
	s.serves("caero", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s %s\n", r.Method, r.RequestURI, r.Host)
		_ = r.Header.Write(w)
	})
	cookie := s.signIn("alice", "caero", aero)
	c := s.raw(aero)
	const path = "/a/..%2f%2e%2e/..//b/./%c3%a4;x?y;z=%zz&q=%2e"
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nCookie: a=1; %s; b=2\r\nCookie: c=3\r\nAuthorization: Bearer "+
		"muster_secret\r\nX-Muster-User: root\r\nX_Muster_User: root\r\n"+
		"X-Forwarded-For: 1.2.3.4\r\nX_Forwarded_Proto: gopher\r\nForwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nConnection: "+
		"close, X-Muster-User, X-Hop\r\nX-Hop: 1\r\nX-Kept: yes\r\n\r\n",
		path, aero, cookie)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	has(t, text, "GET "+path+" "+aero+"\n", "Cookie: a=1; b=2\r\n", "Cookie: c=3\r\n", "X-Muster-User: alice\r\n",
		"X-Forwarded-For: 127.0.0.1\r\n", "X-Forwarded-Host: "+aero+"\r\n", "X-Forwarded-Proto: https\r\n", "X-Kept: yes\r\n")
	for _, secret := range []string{strings.TrimPrefix(cookie, cookieName+"="), "muster_secret", "root", "1.2.3.4", "gopher",
		"X-Hop", "__Host"} {
		if strings.Contains(text, secret) {
			t.Errorf("the app is told %q:\n%s", secret, text)
		}
	}
	if got := s.ask("GET", aero, "/", "Cookie", cookie, "Authorization", "token of-the-app"); !strings.Contains(got.text,
		"Authorization: token of-the-app") {
		t.Error("the app's own token is kept from it:", got.text)
	}
}

func TestAnAppKeepsToItsOwnHost(t *testing.T) {
	s := newSite(t)
	s.serves("caero", func(w http.ResponseWriter, _ *http.Request) {
		says := func(prefix string) {
			for _, line := range []string{"a=1; Domain=apps.test; Path=/", "b=2; path=/x; DOMAIN=.apps.test; HttpOnly",
				cookieName + "=evil; Secure; Path=/", "=" + cookieName + "=evil", " __host-MUSTER =evil"} {
				w.Header().Add(prefix+"Set-Cookie", line)
			}
			w.Header().Set(prefix+"Clear-Site-Data", `"cookies"`)
			w.Header().Set(prefix+"Service-Worker-Allowed", "/")
			w.Header().Set(prefix+"Alt-Svc", `h3="evil.example:443"`)
			w.Header().Set(prefix+"X-Kept", "yes")
		}
		says("")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "the app")
		_ = http.NewResponseController(w).Flush() // the length is not known: trailers may follow
		says(http.TrailerPrefix)
	})
	c := s.raw(aero)
	_, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n\r\n", aero, s.signIn("alice", "caero", aero))
	if err != nil {
		t.Fatal(err)
	}
	reader, said := bufio.NewReader(c), map[string]http.Header{}
	for _, what := range []string{"hints", "answer"} {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(response.Body); err != nil || what == "answer" && string(text) != "the app" {
			t.Errorf("%q, %v", text, err)
		}
		said[what], said["trailers"] = response.Header, response.Trailer
	}
	for what, h := range said {
		if set := strings.Join(h.Values("Set-Cookie"), " | "); set != "a=1; Path=/ | b=2; path=/x; HttpOnly" {
			t.Errorf("%s: cookies %q", what, set)
		}
		if h.Get("Clear-Site-Data")+h.Get("Service-Worker-Allowed")+h.Get("Alt-Svc") != "" || h.Get("X-Kept") != "yes" {
			t.Errorf("%s: %v", what, h)
		}
	}
}

// upgrade asks for what stays open: a connection that is upgraded, as a WebSocket is.
func (s *site) upgrade(person, to string) net.Conn {
	s.Helper()
	c := s.raw(aero)
	_, err := fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nOrigin: https://%s\r\nConnection: "+
		"Upgrade\r\nUpgrade: %s\r\n\r\n", aero, s.signIn(person, "caero", aero), aero, to)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// talk opens one, on which the app echoes what it is told.
func (s *site) talk(person string) *bufio.Reader {
	s.Helper()
	c := s.upgrade(person, "echo")
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		s.Fatal(response, err)
	}
	if _, err := fmt.Fprintln(c, "are you there"); err != nil {
		s.Fatal(err)
	}
	if line, err := reader.ReadString('\n'); err != nil || line != "are you there\n" {
		s.Fatal(line, err)
	}
	return reader
}

func echoes(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "echo" {
		return
	}
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "echo")
	w.WriteHeader(http.StatusSwitchingProtocols)
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = io.Copy(c, buffered)
}

func TestWhoLosesTheRightToEnterLosesWhatIsOpen(t *testing.T) {
	for name, lose := range map[string]func(ctx context.Context, tx *core.Tx) error{
		"a token that is revoked": func(ctx context.Context, tx *core.Tx) error {
			return person.RemoveToken(ctx, tx, "alice", "t-alice")
		},
		"a member who leaves": func(ctx context.Context, tx *core.Tx) error {
			return person.RemoveMember(ctx, tx, "aero", "alice")
		},
		"a member who only looks": func(ctx context.Context, tx *core.Tx) error {
			return person.SetMember(ctx, tx, person.Membership{Project: "aero", Person: "alice", Role: access.Viewer})
		},
		"a person who is disabled": func(ctx context.Context, tx *core.Tx) error {
			return person.Change(ctx, tx, person.Person{Name: "alice", Disabled: true})
		},
		"a file that admits others": func(ctx context.Context, tx *core.Tx) error {
			return change(ctx, tx, &spec.Access{Users: []string{"bob"},
				Apps: []spec.App{{Name: "jupyter", Port: 8888, Node: "head"}}})
		},
		"an app that is no more": func(ctx context.Context, tx *core.Tx) error { return change(ctx, tx, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.serves("caero", echoes)
			open := s.talk("alice")
			s.update(lose)
			began := time.Now()
			if rest, err := io.ReadAll(open); len(rest) != 0 || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
				t.Errorf("it goes on: %q %v", rest, err)
			}
			t.Logf("ended after %.1f s", time.Since(began).Seconds())
		})
	}
}

func TestABrowserThatTakesNothingMoreLosesWhatIsOpenToo(t *testing.T) {
	s, full := newSite(t), make(chan struct{})
	s.serves("caero", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "flood")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		for err == nil {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, err = c.Write(make([]byte, 1<<16))
		}
		close(full)
		_, _ = io.Copy(io.Discard, c)
	})
	s.upgrade("alice", "flood") // and takes nothing of what comes
	select {
	case <-full:
	case <-time.After(time.Minute):
		t.Fatal("the app can write for ever")
	}
	s.update(func(ctx context.Context, tx *core.Tx) error { return person.RemoveMember(ctx, tx, "aero", "alice") })
	open := func() int {
		s.door.mu.Lock()
		defer s.door.mu.Unlock()
		return len(s.door.open)
	}
	for deadline := time.Now().Add(time.Minute); open() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it keeps its place")
		}
	}
}

func change(ctx context.Context, tx *core.Tx, a *spec.Access) error {
	_, err := cluster.ChangeSpec(ctx, tx, "caero", spec.Cluster{Name: "cfd", Project: "aero", Access: a}, 0)
	return err
}

func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

func TestWhatDoesNotRunSaysWhy(t *testing.T) {
	s := newSite(t)
	cookie := s.signIn("alice", "caero", aero)
	expect := func(status int, words ...string) {
		t.Helper()
		got := s.ask("GET", aero, "/", "Cookie", cookie, "Accept", "text/html")
		if got.status != status || got.header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%d, want %d\n%s", got.status, status, got.text)
		}
		has(t, got.text, words...)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.apps["caero"] = free.Addr().String()
	go func() {
		if c, err := free.Accept(); err == nil {
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n")
			_ = c.Close()
		}
	}()
	expect(http.StatusBadGateway, "speaks no HTTP")
	_ = free.Close()
	expect(http.StatusBadGateway, "Nothing listens on port 8888 of node head", "0.0.0.0")
	s.settle(node.Kind, node.Booting)
	expect(http.StatusServiceUnavailable, "Node head of cluster cfd is not ready", "booting", "muster describe aero/cfd")
	s.settle(cluster.Kind, cluster.Paused)
	expect(http.StatusServiceUnavailable, "Cluster cfd is paused", "muster resume aero/cfd --wait")
	s.update(func(ctx context.Context, tx *core.Tx) error { return change(ctx, tx, nil) })
	expect(http.StatusNotFound, "has no app jupyter")
}

func TestLargeBodiesStreamBothWays(t *testing.T) {
	s := newSite(t)
	s.serves("caero", func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(w, r.Body)
	})
	const size = 64 << 20
	reader, writer := io.Pipe()
	go func() {
		_, err := io.CopyN(writer, rand.Reader, size)
		_ = writer.CloseWithError(err)
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://"+aero+"/upload", reader)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", s.signIn("alice", "caero", aero))
	response, err := s.browser().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if n, err := io.Copy(io.Discard, response.Body); n != size || err != nil {
		t.Error(n, err)
	}
}

func TestWhoSpeaksHTTPIsSentToHTTPSAndWhoSaysNothingHoldsNobodyUp(t *testing.T) {
	s := newSite(t)
	for range 50 {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	plain := func(request string) *http.Response {
		t.Helper()
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, request)
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	if got := plain("GET /a%2f?b HTTP/1.1\r\nHost: " + aero + "\r\n\r\n"); got.StatusCode != http.StatusPermanentRedirect ||
		got.Header.Get("Location") != "https://"+aero+"/a%2f?b" {
		t.Error(got.Status, got.Header)
	}
	for target, path := range map[string]string{
		"x:@evil.example/a": "/", "x:.evil.example": "/", "//evil.example/a": "//evil.example/a",
		"http://" + aero + "/a?b": "/a?b", "http://" + aero: "/",
	} {
		got := plain("GET " + target + " HTTP/1.1\r\nHost: " + aero + "\r\n\r\n").Header.Get("Location")
		if want := "https://" + aero + path; got != want {
			t.Errorf("%s leads to %s, want %s", target, got, want)
		}
	}
	if got := plain("POST / HTTP/1.1\r\nHost: " + aero +
		"\r\nContent-Length: 0\r\n\r\n"); got.StatusCode != http.StatusForbidden {
		t.Error(got.Status)
	}
	if got := plain("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"); got.StatusCode != http.StatusMisdirectedRequest ||
		got.Header.Get("Location") != "" {
		t.Error(got.Status)
	}
	if got := s.ask("GET", aero, "/"); got.status != http.StatusUnauthorized {
		t.Error(got)
	}
}

// A request that writes holds up all others that write, so a stranger's does not: a code that was made up is refused meanwhile.
func TestAMadeUpCodeMakesNobodyWait(t *testing.T) {
	s := newSite(t)
	s.update(func(context.Context, *core.Tx) error { // it lasts until the code is refused
		answered := make(chan answer, 1)
		go func() { answered <- s.ask(http.MethodGet, aero, signInPath+"?code=made-up") }()
		select {
		case got := <-answered:
			if got.status != http.StatusUnauthorized {
				t.Error(got)
			}
		case <-time.After(20 * time.Second):
			t.Error("a code that was made up waits for who writes")
		}
		return nil
	})
}
