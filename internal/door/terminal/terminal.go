package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/door/gateway/client"
)

// Size is that of a terminal, in characters.
type Size struct {
	Columns int `json:"columns"`
	Rows    int `json:"rows"`
}

// Sizes that a terminal may have.
const mostColumns, mostRows = 1000, 500

func (s Size) sane() Size {
	return Size{min(max(s.Columns, 1), mostColumns), min(max(s.Rows, 1), mostRows)}
}

// mostWaiting is how many bytes are kept that were typed, behind those that the place is just taking.
const mostWaiting = 1 << 20

// Terminal is one, with what it has shown last.
type Terminal struct {
	ID string

	who    client.Who
	at     Place
	limits Limits
	end    context.CancelCauseFunc
	ends   <-chan struct{} // closed when it is to end, or has
	done   chan struct{}   // closed when it has

	sizing sync.Mutex // held while the place is told a size

	mu      sync.Mutex
	size    Size
	session *ssh.Session  // nil: it has not begun
	typed   []byte        // waits for the place to take it
	kept    []byte        // the last of what it has shown
	shown   int64         // bytes that it has shown
	why     *string       // it has ended; "": by itself, and well
	viewer  *viewer       // nil: no browser shows it
	since   time.Time     // when the last one began to, or left
	changed chan struct{} // closed, and made new, when any of these changes
	alone   *time.Timer   // runs while no browser shows it
}

// Why a terminal ends that is ended.
var (
	errOver  = errors.New("you are signed out, or may no longer log in there")
	errAlone = errors.New("no browser has shown it for some time")
	errLeft  = errors.New("you have opened others, and no browser has shown it")
)

// words are why a terminal has ended, as its user reads them; "": by itself, and well.
func words(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = errOver
		}
	}
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &exit) && exit.Signal() != "":
		return "it was ended by signal " + exit.Signal()
	case errors.As(err, &exit):
		return fmt.Sprintf("it ended with exit code %d", exit.ExitStatus())
	}
	return err.Error()
}

// carry carries what is typed to the place, and what that says back, until it ends. The error is an *ssh.ExitError, or for its
// user to read.
func (t *Terminal) carry(ctx context.Context, by *client.Client) error {
	conn, err := by.Connect(ctx, t.who, t.at.Ref)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	session, err := client.Session(conn)
	if err != nil {
		return err
	}
	input, noInput := session.StdinPipe()
	output, noOutput := session.StdoutPipe()
	gateway, noWords := session.StderrPipe()
	if err := errors.Join(noInput, noOutput, noWords); err != nil {
		return err
	}
	go t.enter(input) // the place takes it once it is there
	var shown sync.WaitGroup
	shown.Go(func() { _, _ = io.Copy(t, output) }) // the end is session.Wait's to tell
	shown.Go(func() { _, _ = io.Copy(t, gateway) })
	if err = t.begin(session); err == nil {
		err = session.Wait()
	}
	_ = session.Close()
	shown.Wait()
	if _, exited := errors.AsType[*ssh.ExitError](err); err != nil && !exited {
		return client.ErrCut
	}
	return err
}

// begin starts a shell. A place that was paused may take minutes to come back.
func (t *Terminal) begin(session *ssh.Session) error {
	t.mu.Lock()
	size := t.size
	t.mu.Unlock()
	err := session.RequestPty("xterm-256color", size.Rows, size.Columns, ssh.TerminalModes{})
	switch {
	case err != nil:
	case t.at.Node == "":
		err = session.Shell()
	default:
		err = session.Start("exec ssh " + t.at.Node)
	}
	if err != nil {
		return err
	}
	t.sizing.Lock()
	defer t.sizing.Unlock()
	t.mu.Lock()
	t.session = session
	now := t.size
	t.mu.Unlock()
	if now != size {
		_ = session.WindowChange(now.Rows, now.Columns) // it may just end
	}
	return nil
}

// enter types what came from browsers, until the terminal ends.
func (t *Terminal) enter(input io.Writer) {
	for {
		t.mu.Lock()
		text, changed := t.typed, t.changed
		t.typed = nil
		t.mu.Unlock()
		if len(text) > 0 {
			if _, err := input.Write(text); err != nil {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-t.ends:
			return
		}
	}
}

// resize tells the place how large the terminal is now.
func (t *Terminal) resize(size Size) {
	size = size.sane()
	t.sizing.Lock()
	defer t.sizing.Unlock()
	t.mu.Lock()
	session := t.session
	if t.size == size {
		session = nil
	}
	t.size = size
	t.mu.Unlock()
	if session != nil {
		_ = session.WindowChange(size.Rows, size.Columns) // it may just end
	}
}

// Write shows what the place says. When it is too far ahead of the browser it waits, until that has caught up or is put out.
func (t *Terminal) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	late := time.NewTimer(t.limits.Ping)
	defer late.Stop()
	var of *viewer // whom the timer is for
	for t.viewer != nil && t.shown-t.viewer.drawn > int64(t.limits.Ahead) {
		v, changed := t.viewer, t.changed
		if of != v {
			of = v
			late.Reset(t.limits.Ping)
		}
		t.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-late.C:
			over = true
		case <-t.ends:
			t.mu.Lock()
			return 0, errOver
		}
		t.mu.Lock()
		if over && t.viewer == v {
			v.late = true
			t.put(v)
		}
	}
	t.kept = append(t.kept, text...)
	if len(t.kept) > t.limits.Kept+t.limits.Kept/4 {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.limits.Kept:]...)
	}
	t.shown += int64(len(text))
	t.tell()
	return len(text), nil
}

// tell says that something has changed. The caller holds the lock.
func (t *Terminal) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// finish says that the terminal has ended.
func (t *Terminal) finish(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alone.Stop()
	t.why, t.session = &why, nil
	close(t.done)
	t.tell()
}

// endAlone ends a terminal that no browser shows.
func (t *Terminal) endAlone() {
	if _, alone := t.left(); alone {
		t.end(errAlone)
	}
}

// left says whether no browser shows the terminal, and since when.
func (t *Terminal) left() (since time.Time, alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since, t.viewer == nil
}
