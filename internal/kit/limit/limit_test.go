package limit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/kit/limit"
)

// site is a server at a gate. Requests with the header Who are of somebody known.
type site struct {
	*testing.T
	address string
	meter   meter
}

type meter struct {
	open    atomic.Int64
	mu      sync.Mutex
	refused map[string]int
}

func (m *meter) Connections(_ string, change int) { m.open.Add(int64(change)) }
func (m *meter) Refused(_, limit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused == nil {
		m.refused = map[string]int{}
	}
	m.refused[limit]++
}

func newSite(t *testing.T, l limit.Limits, h http.HandlerFunc) *site {
	t.Helper()
	s := &site{T: t}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	limiter := limit.NewGroup(l.Total, &s.meter).Limiter(from{listener}, l)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- limiter.Serve(ctx, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Who") != "" {
				limit.Known(r.Context())
			}
			h(w, r)
		}))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for deadline := time.Now().Add(time.Minute); s.meter.open.Load() != 0 && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		if left := s.meter.open.Load(); left != 0 {
			t.Errorf("%d connections are still counted", left)
		}
	})
	return s
}

// from gives connections the address that they say first, as 127.0.0.1 is a proxy's.
type from struct{ net.Listener }

func (f from) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	var first [1]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return nil, err
	}
	return claimed{c, first[0]}, nil
}

type claimed struct {
	net.Conn
	who byte
}

func (c claimed) RemoteAddr() net.Addr {
	if c.who == 0 {
		return c.Conn.RemoteAddr()
	}
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, c.who), Port: 1}
}

// dial opens a connection from an address; 0 is this host.
func (s *site) dial(who byte) net.Conn {
	s.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	if _, err := c.Write([]byte{who}); err != nil {
		s.Fatal(err)
	}
	return c
}

// ask sends a request and returns the status of its answer; 0 if there is none.
func ask(c net.Conn, path string, headers ...string) int {
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	defer func() { _ = c.SetDeadline(time.Time{}) }()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", path,
		strings.Join(append(headers, ""), "\r\n")); err != nil {
		return 0
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// closed says whether a connection is closed within a time.
func closed(c net.Conn, within time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := c.Read(make([]byte, 1<<10))
	timeout, ok := err.(net.Error)
	return err != nil && (!ok || !timeout.Timeout())
}

func usual() limit.Limits {
	return limit.Limits{Door: "test", Total: 20, Each: 5, Header: 10 * time.Second, Idle: time.Minute, Body: time.Minute,
		Stall: time.Minute, Plain: true}
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

func TestManyIdleConnectionsKeepNobodyOut(t *testing.T) {
	for name, who := range map[string]func(int) byte{"of one address": func(int) byte { return 7 }, "of many": func(i int) byte {
		return byte(i%200 + 1)
	}, "of this host": func(int) byte { return 0 }} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, usual(), ok)
			var first net.Conn
			for i := range 200 {
				c := s.dial(who(i))
				if i == 0 {
					first = c
				}
				if i%2 == 0 && ask(c, "/") == 0 { // one that waits for its next request
					t.Fatal("a request has no answer")
				}
				if i%20 == 0 {
					if status := ask(s.dial(250), "/"); status != 200 {
						t.Fatalf("a user's answer is %d after %d connections", status, i)
					}
				}
			}
			most := int64(20)
			if name == "of one address" {
				most = 10 // five are its own, and five the user's
			}
			if open := s.meter.open.Load(); open > most {
				t.Errorf("%d connections are open", open)
			}
			if !closed(first, 30*time.Second) {
				t.Error("the oldest is still there")
			}
		})
	}
}

func TestWhoIsKnownIsNotPutOut(t *testing.T) {
	release := make(chan struct{})
	running := make(chan struct{}, 100)
	s := newSite(t, usual(), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			running <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		ok(w, r)
	})
	answers := make(chan int, 100)
	for range 15 { // more than one address may have of strangers
		go func(c net.Conn) { answers <- ask(c, "/long", "Who: ada") }(s.dial(9))
		<-running
	}
	for i := range 100 {
		c := s.dial(byte(i%200 + 1))
		if i%3 == 0 { // strangers' requests that run have to go, too
			go ask(c, "/long")
			select {
			case <-running:
			case <-time.After(2 * time.Minute):
				t.Fatal("a stranger does not come in")
			}
		}
	}
	close(release)
	for range 15 {
		if status := <-answers; status != 200 {
			t.Errorf("somebody known gets %d", status)
		}
	}
}

func TestWhereAllAreKnownTheNextIsToldSo(t *testing.T) {
	release, running := make(chan struct{}), make(chan struct{}, 100)
	s := newSite(t, usual(), func(w http.ResponseWriter, r *http.Request) {
		running <- struct{}{}
		<-release
		ok(w, r)
	})
	defer close(release)
	for range 20 {
		go ask(s.dial(9), "/", "Who: ada")
		<-running
	}
	c := s.dial(10)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(text), `"code":"unavailable"`) {
		t.Error(response.Status, string(text))
	}
}

func TestWhatNeverEndsIsEnded(t *testing.T) {
	l := usual()
	l.Idle, l.Body, l.Stall = 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
	hasty := l
	hasty.Header = 300 * time.Millisecond
	withoutRequest := newSite(t, hasty, ok)
	read := make(chan error, 10)
	s := newSite(t, l, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			_, err := io.Copy(io.Discard, r.Body)
			read <- err
		case "/flood":
			_, err := w.Write(make([]byte, 64<<20))
			read <- err
		case "/hints":
			for w.Header().Set("Link", strings.Repeat("x", 1<<14)); r.Context().Err() == nil; {
				w.WriteHeader(http.StatusEarlyHints)
			}
			read <- r.Context().Err()
		case "/unread": // a refusal before the body
			w.WriteHeader(401)
		}
	})
	const within = time.Minute
	for name, begin := range map[string]string{
		"headers that never end":   "GET / HTTP/1.1\r\nHost: x\r\nX: ",
		"nothing at all":           "",
		"a body that is read":      "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx",
		"a body without length":    "POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
		"a body that nobody reads": "POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx",
	} {
		at := s
		if !strings.HasPrefix(begin, "POST") {
			at = withoutRequest
		}
		c := at.dial(3)
		_, _ = io.WriteString(c, begin)
		end := time.Now().Add(within)
		_ = c.SetReadDeadline(end)
		if _, err := io.Copy(io.Discard, c); err != nil && time.Now().After(end) {
			t.Errorf("%s: open for %s: %v", name, within, err)
		}
		if strings.HasPrefix(begin, "POST /read") {
			if err := <-read; err == nil {
				t.Errorf("%s: was taken for a whole body", name)
			}
		}
	}
	kept := s.dial(3)
	if ask(kept, "/") == 0 || !closed(kept, within) {
		t.Error("a connection that was answered, and asks nothing more, stays open")
	}
	for _, path := range []string{"/flood", "/hints"} {
		c := s.dial(3)
		_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		select {
		case err := <-read:
			if err == nil {
				t.Errorf("%s: an answer of 64 MiB that nobody reads was sent", path)
			}
		case <-time.After(within):
			t.Errorf("%s: an answer that nobody reads is still being sent after %s", path, within)
		}
	}
}

// Of an answer that its client does not take, the kernel keeps nothing for long once the connection is closed.
func TestWhatNobodyTakesIsNotKept(t *testing.T) {
	const stall = time.Second
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door := limit.NewGroup(8, nil).Limiter(plain, limit.Limits{Total: 8, Stall: stall})
	defer door.Close()
	port := func(a net.Addr) string { return fmt.Sprintf("0100007F:%04X", a.(*net.TCPAddr).Port) }
	kept := func(socket string) bool {
		all, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(all), socket)
	}
	// leave closes a connection with an answer that is not taken, and is true if the kernel was seen to keep it. It may have gone
	// before anybody looks.
	leave := func() (socket string, seen bool) {
		client, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		server, err := door.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = server.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := server.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		socket = port(plain.Addr()) + " " + port(client.LocalAddr()) + " 04 " // proc(5): FIN_WAIT1
		began := time.Now()
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		for !seen && time.Since(began) < stall { // the file is read piece by piece: while others come and go, one may be left out
			seen = kept(socket)
		}
		return socket, seen
	}
	socket, seen := leave()
	for tries := 1; !seen; tries++ {
		if tries == 5 {
			t.Fatalf("there is no %s", socket)
		}
		socket, seen = leave()
	}
	for began := time.Now(); kept(socket); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the kernel goes on keeping it")
		}
	}
}

func TestWhatTakesLongIsNotCut(t *testing.T) {
	l := usual()
	l.Body, l.Stall, l.Header = 2*time.Second, 2*time.Second, 2*time.Second
	s := newSite(t, l, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for range 4 { // longer than any of the limits
			select {
			case <-time.After(700 * time.Millisecond):
			case <-r.Context().Done():
				t.Error("the request was ended")
				return
			}
			_, _ = io.WriteString(w, "still here\n")
			w.(http.Flusher).Flush()
		}
	})
	var all sync.WaitGroup
	for _, body := range []string{"", "some words"} {
		c := s.dial(0)
		all.Go(func() {
			_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
			text, err := io.ReadAll(c)
			if err != nil || strings.Count(string(text), "still here") != 4 {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
	all.Wait()
}

func TestABodyMayTakeLongWhereThatIsSaid(t *testing.T) {
	l := usual()
	l.Body, l.Stall = 300*time.Millisecond, 10*time.Second
	s := newSite(t, l, func(w http.ResponseWriter, r *http.Request) {
		limit.TakeLong(r)
		text, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%d bytes, %v", len(text), err)
	})
	c := s.dial(0)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\n")
	for range 4 {
		time.Sleep(150 * time.Millisecond)
		_, _ = io.WriteString(c, "x")
	}
	if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), "4 bytes, <nil>") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestSharesAreOfAPersonAndOfAll(t *testing.T) {
	s := &limit.Share{Kind: "event streams", Each: 2, Total: 3, Hint: "close some"}
	var leaves []func()
	enter := func(who string) *limit.Over {
		leave, over := s.Enter(who, false)
		if over == nil {
			leaves = append(leaves, leave)
		}
		return over
	}
	for range 2 {
		if over := enter("ada"); over != nil {
			t.Fatal(over)
		}
	}
	if over := enter("ada"); over == nil || !over.Own ||
		over.Error() != "ada has 2 event streams open, which is all that one may have at once (close some)" {
		t.Error(over)
	}
	if enter("bob") != nil {
		t.Error("another is kept out")
	}
	if over := enter("carol"); over == nil || over.Own {
		t.Error(over)
	}
	if _, over := s.Enter("admin", true); over != nil {
		t.Error("who has a reserve is kept out:", over)
	}
	leaves[0]()
	leaves[0]() // leaves once
	if enter("carol") != nil || enter("dave") == nil {
		t.Error("a place that was given back is not there, or twice")
	}
}

func TestStrangersDoNotUseUpTheTriesOfOthers(t *testing.T) {
	tries := &limit.Tries{Window: time.Minute, Each: 30, Here: 600, All: 600, Strained: 3}
	now := time.Now()
	for i := range 10_000 { // one network of IPv6
		tries.More(fmt.Sprintf("[2001:db8:1:1::%x]:9", i), now)
	}
	for i := range 10_000 { // many of one site
		tries.More(fmt.Sprintf("[2001:db8:2:%x::1]:9", i), now)
	}
	for i := range 5000 { // and many of IPv4
		tries.More(fmt.Sprintf("10.1.%d.%d:9", i/200, i%200), now)
	}
	if wait := tries.More("192.0.2.1:9", now); wait != 0 {
		t.Error("who tries for the first time is kept out for", wait)
	}
	if wait := tries.More("127.0.0.1:9", now); wait != 0 {
		t.Error("this host is kept out for", wait)
	}
	if wait := tries.More("[2001:db8:1:1::9]:9", now); wait == 0 || wait > time.Minute {
		t.Error("who has tried too often may go on:", wait)
	}
	if wait := tries.More("[2001:db8:1:1::9]:9", now.Add(time.Minute)); wait != 0 {
		t.Error("a minute later", wait)
	}
}

func TestLinesByStrangersAreFew(t *testing.T) {
	lines := &limit.Lines{Window: time.Minute, Each: 5, All: 20}
	now, said := time.Now(), 0
	for i := range 1000 {
		if yes, _ := lines.Say(fmt.Sprintf("192.0.2.%d:1", i%10), now); yes {
			said++
		}
	}
	if said != 20 {
		t.Error(said, "lines")
	}
	if yes, omitted := lines.Say("192.0.2.1:1", now.Add(time.Minute)); !yes || omitted != 980 {
		t.Error(yes, omitted)
	}
}

func TestDescriptorsAreEnoughForTheirParts(t *testing.T) {
	for _, files := range []int{1024, 4096, 20_000, 1 << 19} {
		b := limit.BudgetOf(files)
		tunnels := b.API / 8
		if sum := b.API + tunnels + b.Agents + 2*b.Web + 2*b.SSH + b.Control + b.Metrics; sum > files*9/10 {
			t.Errorf("%d descriptors of %d are given away", sum, files)
		}
	}
}

func TestAPaceLetsABurstThroughAndThenOneEach(t *testing.T) {
	p, now := limit.Pace{Kind: "sessions", Burst: 3, Every: time.Minute}, time.Now()
	for range 3 {
		if over := p.More("sam", now); over != nil {
			t.Fatal(over)
		}
	}
	over := p.More("sam", now)
	if over == nil || !over.Own || over.After != time.Minute || over.Text != "sam has made 3 sessions in a short time, which is all that one may" {
		t.Fatalf("%+v", over)
	}
	if p.More("vera", now) != nil {
		t.Error("another waits for him")
	}
	if p.More("sam", now.Add(59*time.Second)) == nil || p.More("sam", now.Add(time.Minute)) != nil ||
		p.More("sam", now.Add(61*time.Second)) == nil {
		t.Error("who was refused may come again after a minute, once")
	}
}
