package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"muster/internal/door/gateway/client"
	"muster/internal/kit/limit"
	"muster/internal/kit/printable"
)

// Refusal is why something is not done, for the person to read.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

// ErrSilent says that a head does not answer.
var ErrSilent = errors.New("the cluster's head does not answer")

// Session is one with the files of a cluster, in somebody's account. Its paths are absolute, or from that account's directory.
// Errors are fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, *Refusal, *limit.Over, client.ErrCut or ErrSilent.
type Session struct {
	sftp   *sftp.Client
	conn   io.Closer // what it speaks by
	heard  *meter
	limits Limits
	late   atomic.Bool
	lists  func() (leave func(), over *limit.Over)
	done   func()
}

// Close ends the session. It may be called again.
func (s *Session) Close() { s.done() }

// quit closes the session. The gateway answers that, whatever the head does, and then nothing waits for that any more.
func (s *Session) quit() { _ = s.conn.Close() }

// depth is how many pieces of a file are on their way at once, of 32 KiB each.
const depth = 32

// mostWords is how many bytes of a head's or the gateway's words are read.
const mostWords = 2 << 10

// session begins a session by a way, and takes its use of it over.
func (f *Files) session(ctx context.Context, w *way) (*Session, error) {
	silent := time.NewTimer(f.limits.Patience)
	defer silent.Stop()
	left := make(chan struct{})
	defer close(left)
	type outcome struct {
		s   *Session
		err error
	}
	begun := make(chan outcome)
	go func() {
		<-w.begun // Connect's own patience ends that
		o := outcome{err: w.err}
		if w.err == nil {
			o.s, o.err = begin(w.conn, f.limits)
		}
		select {
		case begun <- o:
		case <-left:
			if o.err == nil {
				_ = o.s.conn.Close()
			}
		}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-silent.C:
		return nil, ErrSilent
	case o := <-begun:
		if o.err != nil {
			return nil, o.err
		}
		s := o.s
		s.lists = func() (func(), *limit.Over) { return f.lists.Enter(w.place.person, false) }
		gone := context.AfterFunc(ctx, func() { time.AfterFunc(f.limits.Grace, s.quit) })
		s.done = sync.OnceFunc(func() {
			gone()
			s.quit()
			f.part(w, false)
		})
		return s, nil
	}
}

// begin begins a session by a connection.
func begin(conn *ssh.Client, limits Limits) (*Session, error) {
	session, err := client.Session(conn)
	switch {
	case errors.Is(err, client.ErrCut):
		return nil, err
	case err != nil:
		return nil, &Refusal{printable.Within(err.Error(), mostWords)}
	}
	input, noInput := session.StdinPipe()
	output, noOutput := session.StdoutPipe()
	beside, noWords := session.StderrPipe()
	serves, err := session.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"}))
	if err := errors.Join(noInput, noOutput, noWords, err); err != nil || !serves {
		_ = session.Close()
		if err != nil {
			return nil, client.ErrCut
		}
		return nil, &Refusal{"the cluster's head serves no files: its sshd has no SFTP"}
	}
	words := listen(beside)
	s, err := speak(output, input, limits)
	if err != nil {
		defer func() { _ = session.Close() }()
		switch said := words.all(); {
		case said != "":
			return nil, &Refusal{said}
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, client.ErrCut
		}
		return nil, &Refusal{"the cluster's head does not speak SFTP; if a start file of your shell, such as .bashrc, prints " +
			"something, have it do so in terminals only"}
	}
	s.conn = session
	return s, nil
}

// speak begins to speak SFTP with a head.
func speak(output io.Reader, input io.WriteCloser, limits Limits) (*Session, error) {
	s := &Session{heard: &meter{from: output}, conn: input, limits: limits}
	s.heard.left.Store(math.MaxInt64)
	var err error
	s.sftp, err = sftp.NewClientPipe(s.heard, input, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(depth))
	return s, err
}

// words are what comes beside the files: mostly why the gateway does not let the person in.
type words struct {
	text bytes.Buffer
	over chan struct{} // closed once there are no more
}

// afterwards is how long words may take to come that say why something has failed.
const afterwards = time.Second

func listen(from io.Reader) *words {
	w := &words{over: make(chan struct{})}
	go func() {
		defer close(w.over)
		_, _ = io.CopyN(&w.text, from, mostWords)
		go func() { _, _ = io.Copy(io.Discard, from) }() // else it would stop the files too
	}()
	return w
}

// all are the words, in one line; "" if there are none.
func (w *words) all() string {
	select {
	case <-w.over:
		return strings.TrimPrefix(printable.Within(strings.TrimSpace(w.text.String()), mostWords), "muster: ")
	case <-time.After(afterwards):
		return ""
	}
}

// meter is how many more bytes a head may say.
type meter struct {
	from io.Reader
	left atomic.Int64
}

var errTalks = errors.New("the head says too much")

func (m *meter) Read(into []byte) (int, error) {
	n, err := m.from.Read(into)
	if m.left.Add(-int64(n)) < 0 {
		return 0, errTalks
	}
	return n, err
}

// awaited closes the session if a head has not answered in time, until it is stopped.
func (s *Session) awaited() *time.Timer {
	return time.AfterFunc(s.limits.Patience, func() {
		s.late.Store(true)
		s.quit()
	})
}

// errNonsense says that a head has only said that all is well, where more was asked for.
var errNonsense = errors.New("an answer without what was asked for")

// look is what a head says of a path.
func (s *Session) look(how func(string) (os.FileInfo, error), path string) (os.FileInfo, error) {
	info, err := how(path)
	if err != nil {
		return nil, err
	}
	if info != nil {
		if of, is := info.Sys().(*sftp.FileStat); is && of != nil {
			return info, nil
		}
	}
	return nil, errNonsense
}

// open opens a file.
func (s *Session) open(path string, flags int) (*sftp.File, error) {
	file, err := s.sftp.OpenFile(path, flags)
	if err == nil && file == nil {
		err = errNonsense
	}
	return file, err
}

// told is an error of SFTP, as its user may read it.
func (s *Session) told(err error, what string) error {
	var status *sftp.StatusError
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrExist):
		return err
	case s.late.Load():
		return ErrSilent
	case s.heard.left.Load() < 0:
		return &Refusal{"it has too many entries to be shown here; a terminal lists them"}
	case errors.As(err, &status):
		return &Refusal{what}
	}
	return client.ErrCut
}
