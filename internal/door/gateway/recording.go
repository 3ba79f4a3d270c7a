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
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
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
	began time.Time
	rest  []byte // the beginning of a character of which the end has not come yet
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
	t.write("r", fmt.Sprintf("%dx%d", s.Columns, s.Rows))
}

// write adds an event. What the disk does not take is lost: the session goes on, its row says that it was recorded.
func (t *recording) write(kind, text string) {
	if t.file == nil {
		return
	}
	line, err := json.Marshal([]any{time.Since(t.began).Seconds(), kind, text})
	if err == nil {
		_, _ = t.file.Write(append(line, '\n'))
	}
}

// output adds what was shown, in whole characters.
func (t *recording) output(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return
	}
	text := append(t.rest, p...)
	whole := len(text)
	for i := 1; i <= min(utf8.UTFMax-1, len(text)); i++ {
		if b := text[len(text)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-i:]) {
				whole = len(text) - i
			}
			break
		}
	}
	t.rest = append([]byte(nil), text[whole:]...)
	t.write("o", string(text[:whole]))
}

func (t *recording) start(path string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	t.file, t.began = file, time.Now()
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

// taped writes to a terminal and its tape.
type taped struct {
	io.Writer
	recording *recording
}

func (w taped) Write(p []byte) (int, error) {
	w.recording.output(p)
	return w.Writer.Write(p)
}

// maxTapes bounds the terminals of one session that are kept.
const maxTapes = 1000

// record begins to keep what the terminal shows, and tells the person so before anything is shown.
func (s *relayed) record(ctx context.Context) error {
	err := os.MkdirAll(s.v.g.Recordings, 0o700)
	if err == nil {
		err = fs.ErrExist
	}
	for n := 1; errors.Is(err, fs.ErrExist) && n <= maxTapes; n++ {
		err = s.recording.start(filepath.Join(s.v.g.Recordings, fmt.Sprintf("%s-%d.cast", s.e.row.ID, n)))
	}
	if err != nil {
		s.v.g.Log.ErrorContext(ctx, "cannot record a session", "session", s.e.row.ID, "error", err)
		return &Refusal{Text: "project " + s.e.row.Project + " keeps what terminals show, and the gateway cannot write it",
			Hint: "an operator finds the reason in its log"}
	}
	say(s.outside, true, "project "+s.e.row.Project+" keeps what terminals show: this session is recorded as "+s.e.row.ID)
	return nil
}

// screen is where the place's output goes.
func (s *relayed) screen() io.Writer {
	if !s.e.row.Recorded {
		return s.outside
	}
	return taped{s.outside, &s.recording}
}
