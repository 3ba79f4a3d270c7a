package terminal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"muster/internal/door/gateway/client/clienttest"
	"muster/internal/door/terminal"
)

// site is a gateway that lets everybody into a place where a word does something, and a door for browsers.
type site struct {
	testing.TB
	all     *terminal.Terminals
	address string

	mu   sync.Mutex
	last *terminal.Terminal
	ends map[*terminal.Terminal]context.CancelFunc
}

// alice is who opens terminals; bob's browser is another one.
var alice = clienttest.Alice()

var cfd = terminal.Place{Cluster: "c1", Ref: clienttest.Place}

func newSite(t *testing.T, change func(*terminal.Limits)) *site {
	t.Helper()
	limits := terminal.UsualLimits()
	if change != nil {
		change(&limits)
	}
	s := &site{TB: t, all: terminal.New(clienttest.New(t, place).Client, limits, nil),
		ends: map[*terminal.Terminal]context.CancelFunc{}}
	door := httptest.NewServer(http.HandlerFunc(s.open))
	t.Cleanup(func() {
		for _, end := range s.ends {
			end()
		}
		door.Close()
	})
	s.address = "ws" + strings.TrimPrefix(door.URL, "http")
	return s
}

// open shows a terminal: the one with the ID that is asked for, or a new one.
func (s *site) open(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	size := terminal.Size{Columns: 80, Rows: 24}
	from, _ := strconv.ParseInt(r.FormValue("from"), 10, 64)
	if id := r.FormValue("terminal"); id != "" {
		one, is := s.all.Find(id, r.FormValue("owner"), cfd)
		if !is {
			terminal.Gone(r.Context(), socket, "it is not there")
			return
		}
		one.Show(r.Context(), socket, size, from)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	one, err := s.all.Open(ctx, cancel, alice, cfd, size)
	if err != nil {
		terminal.Gone(r.Context(), socket, err.Error())
		return
	}
	s.mu.Lock()
	s.last, s.ends[one] = one, cancel
	s.mu.Unlock()
	one.Show(r.Context(), socket, size, from)
}

// place is a shell of four words: size, fill N, exit N, and any other, which it says again.
func place(channel ssh.Channel, requests <-chan *ssh.Request) {
	size, begun := make(chan string, 10), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	go func() {
		defer begin()
		for r := range requests {
			var m struct {
				Columns, Rows uint32
				Rest          []byte `ssh:"rest"`
			}
			var pty struct {
				Term          string
				Columns, Rows uint32
				Rest          []byte `ssh:"rest"`
			}
			switch {
			case r.Type == "window-change" && ssh.Unmarshal(r.Payload, &m) == nil:
				size <- fmt.Sprintf("%dx%d", m.Columns, m.Rows)
			case r.Type == "pty-req" && ssh.Unmarshal(r.Payload, &pty) == nil:
				size <- fmt.Sprintf("%dx%d", pty.Columns, pty.Rows)
			case r.Type == "shell":
				_, _ = channel.Stderr().Write([]byte("welcome "))
			}
			if r.WantReply {
				_ = r.Reply(true, nil)
			}
			if r.Type == "shell" {
				begin()
			}
		}
	}()
	<-begun
	buffer := make([]byte, 1<<10)
	for {
		n, err := channel.Read(buffer)
		if err != nil {
			return
		}
		word, number, _ := strings.Cut(string(buffer[:n]), " ")
		count, _ := strconv.Atoi(number)
		switch word {
		case "size":
			_, _ = channel.Write([]byte(<-size))
		case "fill":
			go func() { _, _ = channel.Write(make([]byte, count)) }()
		case "exit":
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(count)}))
			_ = channel.Close()
			return
		default:
			_, _ = channel.Write(buffer[:n])
		}
	}
}

// browser shows a terminal.
type browser struct {
	testing.TB
	socket *websocket.Conn
	id     string
	from   int
	kept   int
	shown  strings.Builder
	ended  *string
	closed websocket.StatusCode
}

// browse opens a terminal in a browser, or the one with an ID.
func (s *site) browse(query string) *browser {
	s.Helper()
	socket, _, err := websocket.Dial(s.Context(), s.address+"/?"+query, nil)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = socket.CloseNow() })
	socket.SetReadLimit(1 << 20)
	return &browser{TB: s.TB, socket: socket}
}

// read takes what comes until enough has come; it returns false if it was closed first.
func (b *browser) read(enough func() bool) bool {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	for !enough() {
		kind, message, err := b.socket.Read(ctx)
		if err != nil {
			b.closed = websocket.CloseStatus(err)
			return false
		}
		if kind == websocket.MessageBinary {
			b.shown.Write(message)
			continue
		}
		var m struct {
			Terminal   string
			From, Kept int
			Ended      *string
		}
		if err := json.Unmarshal(message, &m); err != nil {
			b.Fatal(err)
		}
		if m.Terminal != "" {
			b.id, b.from, b.kept = m.Terminal, m.From, m.Kept
		}
		if m.Ended != nil {
			b.ended = m.Ended
		}
	}
	return true
}

func (b *browser) shows(text string) {
	b.Helper()
	if !b.read(func() bool { return strings.Contains(b.shown.String(), text) }) {
		b.Fatalf("%q is not shown, but %q", text, b.shown.String())
	}
}

func (b *browser) ends(why string, status websocket.StatusCode) {
	b.Helper()
	if b.read(func() bool { return false }); b.closed != status || b.ended == nil || *b.ended != why {
		b.Fatalf("it ends with %v, and says %q", b.closed, words(b.ended))
	}
}

func words(text *string) string {
	if text == nil {
		return "nothing"
	}
	return *text
}

func (b *browser) types(text string) { b.send(websocket.MessageBinary, text) }

func (b *browser) says(text string) { b.send(websocket.MessageText, text) }

func (b *browser) send(kind websocket.MessageType, text string) {
	b.Helper()
	if err := b.socket.Write(b.Context(), kind, []byte(text)); err != nil {
		b.Fatal(err)
	}
}

func TestATerminalIsASessionThroughTheGateway(t *testing.T) {
	s := newSite(t, nil)
	b := s.browse("")
	b.shows("welcome ") // said on standard error
	b.types("hello")
	b.shows("hello")
	b.types("size")
	b.shows("80x24")
	b.says(`{"resize": {"columns": 100, "rows": 40}}`)
	b.types("size")
	b.shows("100x40")
	b.types("exit 3")
	b.ends("it ended with exit code 3", websocket.StatusNormalClosure)

	early := s.browse("")
	for range 100 {
		early.types("x") // before it has begun
	}
	if !early.read(func() bool { return strings.Count(early.shown.String(), "x") == 100 }) {
		t.Fatalf("it shows %q", early.shown.String())
	}
	early.types("exit 0")
	early.ends("", websocket.StatusNormalClosure)
}

func TestATerminalIsShownAgainToItsBrowserOnly(t *testing.T) {
	s := newSite(t, nil)
	b := s.browse("")
	b.types("before")
	b.shows("before")
	_ = b.socket.CloseNow()

	again := s.browse("terminal=" + b.id + "&owner=alice's+browser")
	again.shows("before")
	again.types("after")
	again.shows("after")

	s.browse("terminal="+b.id+"&owner=bob's+browser").ends("it is not there", websocket.StatusNormalClosure)
	s.browse("terminal=other&owner=alice's+browser").ends("it is not there", websocket.StatusNormalClosure)

	other := s.browse("terminal=" + b.id + "&owner=alice's+browser") // in another tab
	other.shows("after")
	if again.read(func() bool { return false }); again.closed != 4001 {
		t.Error("the tab before it goes on:", again.closed)
	}
	other.types("exit 0")
	other.ends("", websocket.StatusNormalClosure)
	s.browse("terminal="+b.id+"&owner=alice's+browser").ends("it is not there", websocket.StatusNormalClosure)
}

// again is the query for a terminal that alice's browser has opened.
func again(id string, from int) string {
	return fmt.Sprintf("terminal=%s&owner=alice's+browser&from=%d", id, from)
}

// undrawn is how much comes to a browser that draws nothing, when it has waited for a while.
func (b *browser) undrawn() int {
	b.Helper()
	b.read(func() bool { return b.shown.Len() > 20<<10 })
	limited, cancel := context.WithTimeout(b.Context(), 300*time.Millisecond)
	defer cancel()
	sent := b.shown.Len()
	for { // until the time is over, which cuts the connection
		_, message, err := b.socket.Read(limited)
		if err != nil {
			return sent
		}
		sent += len(message)
	}
}

func TestATerminalKeepsTheLastOfWhatItShows(t *testing.T) {
	const kept = 100 << 10
	s := newSite(t, func(l *terminal.Limits) { l.Kept, l.Ahead = kept, 40<<10 })
	b := s.browse("")
	b.shows("welcome ")
	b.types("fill 1000000")
	if n := b.undrawn(); n > 120<<10 {
		t.Errorf("a browser that draws nothing was sent %d bytes", n)
	}

	then := s.browse(again(b.id, 0)) // without one, all of it was shown; and with one that draws
	then.types("the end")
	then.read(func() bool {
		if strings.Contains(then.shown.String(), "the end") {
			return true
		}
		then.says(fmt.Sprintf(`{"drawn": %d}`, then.shown.Len()))
		return false
	})
	if n := then.shown.Len(); n < kept/2 {
		t.Errorf("only %d bytes are shown again", n)
	}
}

func TestABrowserThatWasCutOffGoesOnWhereItWas(t *testing.T) {
	s := newSite(t, nil)
	b := s.browse("")
	b.shows("welcome ")
	b.types("one two")
	b.shows("welcome one two")
	_ = b.socket.CloseNow()
	then := s.browse(again(b.id, len("welcome one ")))
	then.shows("two")
	if then.shown.String() != "two" || then.from != len("welcome one ") || then.kept != len("two") {
		t.Errorf("it is shown %q from %d on, %d of it again", then.shown.String(), then.from, then.kept)
	}
	then.types("three")
	then.shows("three")
	_ = then.socket.CloseNow()
	beyond := s.browse(again(b.id, 1000))
	if beyond.shows("welcome one twothree"); beyond.from != 0 {
		t.Error("what it has not shown is not shown from", beyond.from)
	}
}

func TestABrowserThatDrawsNothingIsPutOut(t *testing.T) {
	s := newSite(t, func(l *terminal.Limits) { l.Ping, l.Ahead = 5*time.Second, 10<<10 })
	b := s.browse("")
	b.shows("welcome ")
	b.types("fill 1000000")
	if b.read(func() bool { return false }); b.closed != websocket.StatusTryAgainLater {
		t.Error(b.closed)
	}
}

func TestATerminalEndsWithTheRightAndWhenItIsLeftAlone(t *testing.T) {
	s := newSite(t, func(l *terminal.Limits) { l.Alone = 300 * time.Millisecond })
	for _, fill := range []string{"nothing", "fill 1000000"} { // nothing of it is drawn
		b := s.browse("")
		b.shows("welcome ")
		b.types(fill)
		b.read(func() bool { return b.shown.Len() > len("welcome ") })
		s.mu.Lock()
		end := s.ends[s.last]
		s.mu.Unlock()
		end()
		b.ends("you are signed out, or may no longer log in there", websocket.StatusNormalClosure)
		s.gone(b.id)
	}

	left := s.browse("")
	left.shows("welcome ")
	time.Sleep(500 * time.Millisecond) // it is shown
	left.types("here")
	left.shows("here")
	_ = left.socket.CloseNow()
	s.gone(left.id)
}

// gone waits until there is no such terminal any more.
func (s *site) gone(id string) {
	s.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, is := s.all.Find(id, alice.Owner, cfd); !is {
			return
		}
		if time.Now().After(end) {
			s.Fatal("the terminal goes on")
		}
	}
}

func TestTerminalsAreSharesOfPersons(t *testing.T) {
	s := newSite(t, func(l *terminal.Limits) { l.Each = 2 })
	first, second := s.browse(""), s.browse("")
	first.shows("welcome ")
	second.shows("welcome ")
	third := s.browse("")
	if third.read(func() bool { return false }); third.ended == nil || !strings.Contains(*third.ended, "close some") {
		t.Errorf("a third terminal: %q", words(third.ended))
	}
	_ = first.socket.CloseNow()
	for { // it is seen in a moment that no browser shows the first any more
		one, is := s.all.Find(first.id, alice.Owner, cfd)
		if !is || !one.Shown() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.browse("").shows("welcome ")
	s.gone(first.id)
	second.types("still here")
	second.shows("still here")
}

func TestMessagesThatMeanNothingEndTheSocketOnly(t *testing.T) {
	s := newSite(t, nil)
	b := s.browse("")
	b.shows("welcome ")
	for _, message := range []string{"", "hello", `{"drawn": 1000000}`, `{"drawn": -1}`, `{"resize": 3}`} {
		b.says(message)
		if b.read(func() bool { return false }); b.closed != websocket.StatusPolicyViolation {
			t.Errorf("%q: %v", message, b.closed)
		}
		b = s.browse("terminal=" + b.id + "&owner=alice's+browser")
		b.shows("welcome ")
	}
	b.says(`{"resize": {"columns": -1, "rows": 1000000}}`)
	b.types("size")
	b.shows("80x24")
	b.types("size")
	b.shows("1x500")
	b.types(strings.Repeat("x", 20<<10))
	if b.read(func() bool { return false }); b.closed != websocket.StatusMessageTooBig {
		t.Error("a message that is too long:", b.closed)
	}
}
