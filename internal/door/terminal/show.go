package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"muster/internal/kit/clock"
)

// Close codes (RFC 6455, section 7.4) that tell a browser what to do. After any other it comes again.
const (
	statusEnded     = websocket.StatusNormalClosure   // it has been told why
	statusElsewhere = websocket.StatusCode(4001)      // another tab shows the terminal now
	statusLate      = websocket.StatusTryAgainLater   // it has not caught up for long
	statusUnclear   = websocket.StatusPolicyViolation // it has said what means nothing, or typed too much
)

const (
	mostTyped = 16 << 10 // bytes of a message from a browser
	mostSent  = 8 << 10  // and to one: a ping waits behind it
)

// told is what a browser is told, as text; nothing, again and again, as long as the socket is open. What the terminal shows comes
// as bytes.
type told struct {
	Terminal string  `json:"terminal,omitempty"` // at first: its ID,
	From     int64   `json:"from,omitempty"`     // which of all the bytes that it has shown come: from this one on,
	Kept     int64   `json:"kept,omitempty"`     // and how many of them were shown before
	Ended    *string `json:"ended,omitempty"`    // at last: why; "": by itself, and well
}

// said is what a browser says, as text. What is typed comes as bytes.
type said struct {
	Resize *Size  `json:"resize"`
	Drawn  *int64 `json:"drawn"` // how many of the bytes that it was sent
}

// viewer is a browser that shows a terminal: where it is in all that the terminal has shown.
type viewer struct {
	start, sent, drawn int64
	kept               int64 // what is before was shown before it came
	late               bool
}

// Gone tells a browser why there is no terminal for it, and closes the socket.
func Gone(ctx context.Context, socket *websocket.Conn, why string) {
	if tell(ctx, socket, UsualLimits().Ping, told{Ended: &why}) == nil {
		_ = socket.Close(statusEnded, "")
	}
	_ = socket.CloseNow()
}

// Show has a browser show a terminal until either ends or another tab shows it: with what is kept of what it has shown, from that
// byte on. It closes the socket.
func (t *Terminal) Show(ctx context.Context, socket *websocket.Conn, size Size, from int64) {
	defer func() { _ = socket.CloseNow() }()
	socket.SetReadLimit(mostTyped)
	v := t.join(size, from)
	defer t.leave(v)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return t.hear(ctx, socket, v) })
	all.Go(func() error { return t.ask(ctx, socket) })
	all.Go(func() error {
		code, err := t.send(ctx, socket, v)
		if err == nil {
			err = errors.Join(errShown, socket.Close(code, "")) // while what the browser answers is still read
		}
		return err
	})
	_ = all.Wait() // that a browser has gone is no news
}

// errShown ends what goes on beside what has been shown.
var errShown = errors.New("there is no more to show")

// redraws is how long a program may take to see a new size.
const redraws = 100 * time.Millisecond

// join begins to show the terminal in one browser, and in no other.
func (t *Terminal) join(size Size, from int64) *viewer {
	t.mu.Lock()
	t.alone.Stop()
	start := t.shown - int64(len(t.kept))
	if start <= from && from <= t.shown {
		start = from
	}
	v := &viewer{start: start, sent: start, drawn: start, kept: t.shown}
	t.viewer, t.since = v, time.Now()
	t.tell()
	t.mu.Unlock()
	if start > 0 && start != from { // what set the screen up may be lost; a program that fills it draws it again at a new size
		t.resize(Size{size.Columns, size.Rows - 1})
		time.Sleep(redraws)
	}
	t.resize(size)
	return v
}

func (t *Terminal) leave(v *viewer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(v)
}

// put puts a browser out, if it still shows the terminal. The caller holds the lock.
func (t *Terminal) put(v *viewer) {
	if t.viewer != v {
		return
	}
	t.viewer, t.since = nil, time.Now()
	if t.why == nil {
		t.alone.Reset(t.limits.Alone)
	}
	t.tell()
}

// hear takes what a browser says. It returns why it says no more.
func (t *Terminal) hear(ctx context.Context, socket *websocket.Conn, v *viewer) error {
	for {
		kind, message, err := socket.Read(ctx)
		if err != nil {
			return err
		}
		if kind == websocket.MessageBinary {
			err = t.hearTyping(message, v)
		} else {
			err = t.hearWords(message, v)
		}
		if err != nil {
			return errors.Join(err, socket.Close(statusUnclear, err.Error()))
		}
	}
}

var (
	errFull    = errors.New("too much is typed that the place does not take")
	errUnclear = errors.New("this message means nothing here")
)

// hearTyping keeps what is typed until the place takes it. Of a browser that was put out it does not count.
func (t *Terminal) hearTyping(text []byte, v *viewer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.viewer != v {
		return nil
	}
	if len(t.typed)+len(text) > mostWaiting {
		return errFull
	}
	t.typed = append(t.typed, text...)
	t.tell()
	return nil
}

// hearWords takes a message that is no typing.
func (t *Terminal) hearWords(message []byte, v *viewer) error {
	var s said
	if json.Unmarshal(message, &s) != nil {
		return errUnclear
	}
	t.mu.Lock()
	shows := t.viewer == v
	if s.Drawn != nil {
		drawn := v.start + *s.Drawn
		if drawn < v.drawn || drawn > v.sent {
			t.mu.Unlock()
			return errUnclear
		}
		v.drawn = drawn
		t.tell()
	}
	t.mu.Unlock()
	if s.Resize != nil && shows {
		t.resize(*s.Resize)
	}
	return nil
}

// ask asks the browser again and again whether it is there, and tells it that the socket is open, as its program does not see who
// asks. It returns why it is not there.
func (t *Terminal) ask(ctx context.Context, socket *websocket.Conn) error {
	for {
		if err := clock.Sleep(ctx, t.limits.Ping); err != nil {
			return err
		}
		if err := tell(ctx, socket, t.limits.Ping, told{}); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, t.limits.Ping)
		err := socket.Ping(limited)
		cancel()
		if err != nil {
			return err
		}
	}
}

// send sends a browser what the terminal shows, until there is no more for it.
func (t *Terminal) send(ctx context.Context, socket *websocket.Conn, v *viewer) (websocket.StatusCode, error) {
	begins := told{Terminal: t.ID, From: v.start, Kept: v.kept - v.start}
	if err := tell(ctx, socket, t.limits.Ping, begins); err != nil {
		return 0, err
	}
	for {
		more := t.next(v)
		switch {
		case more.late:
			return statusLate, nil
		case more.elsewhere:
			return statusElsewhere, nil
		case len(more.piece) > 0:
			if err := write(ctx, socket, t.limits.Ping, websocket.MessageBinary, more.piece); err != nil {
				return 0, err
			}
		case more.why != nil:
			return statusEnded, tell(ctx, socket, t.limits.Ping, told{Ended: more.why})
		default:
			select {
			case <-more.changed:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
	}
}

// next is what a browser is to be shown next; nothing: once changed is closed, there may be more.
type next struct {
	piece     []byte
	why       *string
	late      bool
	elsewhere bool
	changed   <-chan struct{}
}

func (t *Terminal) next(v *viewer) next {
	t.mu.Lock()
	defer t.mu.Unlock()
	unsent := min(t.shown-v.sent, int64(len(t.kept)))
	rest := t.kept[int64(len(t.kept))-unsent:]
	most := int64(mostSent)
	if v.sent < v.kept { // what is new comes apart
		most = min(most, v.kept-v.sent)
	}
	n := next{piece: slices.Clone(rest[:min(int64(len(rest)), most)]), why: t.why, late: v.late, elsewhere: t.viewer != v,
		changed: t.changed}
	v.sent = t.shown - int64(len(rest)-len(n.piece))
	return n
}

// tell tells a browser something that is not shown.
func tell(ctx context.Context, socket *websocket.Conn, within time.Duration, what told) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return write(ctx, socket, within, websocket.MessageText, text)
}

// write sends a browser a message, which it has to take in time.
func write(ctx context.Context, socket *websocket.Conn, within time.Duration, kind websocket.MessageType, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return socket.Write(ctx, kind, text)
}
