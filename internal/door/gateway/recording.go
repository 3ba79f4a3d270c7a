package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/kit/printable"
)

// size is that of a terminal.
type size struct{ Columns, Rows uint32 }

func ptySize(payload []byte) size {
	var m struct {
		Term          string
		Columns, Rows uint32
		Rest          []byte `ssh:"rest"`
	}
	_ = ssh.Unmarshal(payload, &m) // a bad one has no size
	return size{m.Columns, m.Rows}
}

func windowSize(payload []byte) size {
	var m struct {
		Columns, Rows uint32
		Rest          []byte `ssh:"rest"`
	}
	_ = ssh.Unmarshal(payload, &m)
	return size{m.Columns, m.Rows}
}

// recording keeps what a terminal shows, in asciicast's version 2: a line of JSON for what it is, then one for each output
// and change of size, with its seconds since the beginning.
type recording struct {
	mu    sync.Mutex
	now   size
	file  *os.File // nil: does not run
	claim func(n int64) error
	began time.Time
	rest  []byte // the beginning of a character whose end has not come yet
}

func (t *recording) size(s size) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = s
}

func (t *recording) resize(s size) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = s
	_ = t.write("r", fmt.Sprintf("%dx%d", s.Columns, s.Rows)) // if there is no room, the next output ends the session
}

// write adds an event.
func (t *recording) write(kind, text string) error {
	if t.file == nil {
		return nil
	}
	line, err := json.Marshal([]any{time.Since(t.began).Seconds(), kind, text})
	if err == nil {
		err = t.claim(int64(len(line) + 1))
	}
	if err == nil {
		_, err = t.file.Write(append(line, '\n'))
	}
	return err
}

// output adds what is going to be shown, in whole characters. What is not kept must not be shown.
func (t *recording) output(p []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	whole, rest := printable.Whole(append(t.rest, p...))
	t.rest = rest
	return t.write("o", string(whole))
}

// start begins the file. claim is asked before each of its lines whether there is room.
func (t *recording) start(path string, claim func(n int64) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	t.file, t.began, t.claim = file, time.Now(), claim
	header, err := json.Marshal(map[string]any{"version": 2, "width": t.now.Columns, "height": t.now.Rows,
		"timestamp": t.began.Unix()})
	if err == nil {
		_, err = file.Write(append(header, '\n'))
	}
	return err
}

func (t *recording) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}

// taped writes to a terminal and its tape. It ends the session when the tape takes no more.
type taped struct{ s *relayed }

func (w taped) Write(p []byte) (int, error) {
	if err := w.s.recording.output(p); err != nil {
		w.s.breakOff("this session ends: " + w.s.unrecorded(err).Error())
		return 0, err
	}
	return w.s.outside.Write(p)
}

// maxTapes bounds the terminals of one session that are kept.
const maxTapes = 1000

// record begins to keep what the terminal shows, and tells the person so before anything is shown.
func (s *relayed) record(ctx context.Context) error {
	archive, row, kept := &s.v.g.archive, s.e.row, int64(0)
	claim := func(n int64) error {
		if kept += n; kept > archive.limits.Terminal {
			return &Refusal{Text: fmt.Sprintf("its recording has reached the limit of %d MiB", archive.limits.Terminal>>20),
				Hint: "log in again; large outputs belong into files"}
		}
		return archive.take(row.Project, row.Person, n)
	}
	folder, err := archive.folder(row.Project, row.Person)
	if err == nil {
		err = archive.take(row.Project, row.Person, leastRecording)
	}
	for n, again := 1, err == nil; again && n <= maxTapes; n++ {
		err = s.recording.start(filepath.Join(folder, fmt.Sprintf("%s-%d.cast", row.ID, n)), claim)
		again = errors.Is(err, fs.ErrExist)
	}
	if err != nil {
		if say, omitted := s.v.g.lines.Say(row.Remote, time.Now()); say {
			s.v.g.Log.ErrorContext(ctx, "cannot record a session", "session", row.ID, "error", err, "omitted", omitted)
		}
		return s.unrecorded(err)
	}
	say(s.outside, true, "project "+row.Project+" keeps what terminals show: this session is recorded as "+row.ID)
	return nil
}

// unrecorded is why a terminal shows nothing more, as the person may read it.
func (s *relayed) unrecorded(err error) *Refusal {
	why := &Refusal{Text: "the gateway cannot write it", Hint: "an operator finds the reason in its log"}
	errors.As(err, &why)
	return &Refusal{Text: "project " + s.e.row.Project + " keeps what terminals show, and " + why.Text, Hint: why.Hint}
}

// screen is where the place's output goes.
func (s *relayed) screen() io.Writer {
	if !s.e.row.Recorded {
		return s.outside
	}
	return taped{s}
}
