package gateway

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"muster/internal/core"
	"muster/internal/kinds/person"
)

// terminal opens one in a project that keeps what it shows.
func (s fixture) terminal() *ssh.Session {
	s.Helper()
	s.update(s.g.DB, func(ctx context.Context, tx *core.Tx) error {
		return person.ChangeProject(ctx, tx, person.Project{Name: "aero", Recorded: true})
	})
	session, err := s.client("cfd").NewSession()
	if err != nil {
		s.Fatal(err)
	}
	if err := session.RequestPty("xterm", 40, 132, nil); err != nil {
		s.Fatal(err)
	}
	return session
}

func TestWhatATerminalShowsIsKeptWhereTheProjectWantsIt(t *testing.T) {
	s := newFixture(t, nil)
	session := s.terminal()
	var errs bytes.Buffer
	session.Stdin, session.Stderr = strings.NewReader("grüße\n"), &errs
	if err := session.Run("echo"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(errs.String(), "this session is recorded as s") {
		t.Errorf("the person is told %q", errs.String())
	}
	files, err := filepath.Glob(filepath.Join(s.g.Recordings, "aero/alice/*.cast"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"width":132`, `"height":40`, `"version":2`, `"o","grüße\n"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// A member chooses how much a terminal shows, and its recording is on the disk of the database.
func TestATerminalWhoseRecordingIsFullEnds(t *testing.T) {
	for name, c := range map[string]struct {
		limits  Recorded
		reserve int64
		says    string
	}{
		"terminal": {Recorded{Terminal: 1 << 20, Person: 4 << 20, Project: 4 << 20, All: 4 << 20}, 1,
			"this session ends: project aero keeps what terminals show, and its recording has reached the limit of 1 MiB"},
		"person": {Recorded{Terminal: 4 << 20, Person: 1 << 20, Project: 4 << 20, All: 4 << 20}, 1,
			"and your recordings in project aero have reached their limit of 1 MiB"},
		"disk": {UsualLimits().Recorded, 1 << 60, "and the gateway's disk has no room for recordings"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, func(g *Gateway) {
				g.Limits.Recorded = c.limits
				g.Reserve = c.reserve
			})
			session := s.terminal()
			var shown, errs bytes.Buffer
			session.Stdin, session.Stdout, session.Stderr = strings.NewReader(strings.Repeat("0123456789", 2<<17)), &shown, &errs
			var ended *ssh.ExitError
			if err := session.Run("echo"); !errors.As(err, &ended) || ended.ExitStatus() != 255 {
				t.Errorf("it ends with %v", err)
			}
			if !strings.Contains(errs.String(), c.says) {
				t.Errorf("the person is told %q", errs.String())
			}
			var kept int64
			files, _ := filepath.Glob(filepath.Join(s.g.Recordings, "aero/alice/*.cast"))
			for _, file := range files {
				info, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				kept += info.Size()
			}
			if kept > 1<<20+leastRecording || int64(shown.Len()) > kept {
				t.Errorf("%d bytes are kept, and %d were shown", kept, shown.Len())
			}
		})
	}
}

func TestRecordingsHaveSharesThatAreCountedAnew(t *testing.T) {
	dir := t.TempDir()
	s := &archive{dir: dir, reserve: 1, limits: Recorded{Person: 1600 << 10, Project: 2400 << 10, All: 2880 << 10}}
	keep := func(path string, bytes int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep("s1-1.cast", 10) // somebody has moved it
	keep("aero/alice/s2-1.cast", 1536<<10)
	for _, c := range []struct {
		project, person string
		kib             int64
		says            string
	}{
		{"aero", "alice", 128, "your recordings in project aero have reached"}, {"aero", "alice", 64, ""},
		{"aero", "bob", 960, "the recordings of project aero have reached"}, {"aero", "bob", 640, ""},
		{"bio", "alice", 640, "all recordings of this gateway have reached"}, {"bio", "alice", 576, ""},
	} {
		err := s.take(c.project, c.person, c.kib<<10)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s in %s takes %d KiB: %v, want %q", c.person, c.project, c.kib, err, c.says)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "aero")); err != nil {
		t.Fatal(err)
	}
	s.counted = s.counted.Add(-2 * recounted)
	if err := s.take("aero", "alice", 1600<<10); err != nil {
		t.Error("although the old ones were taken away: ", err)
	}
}
