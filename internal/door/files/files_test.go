package files_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"muster/internal/door/files"
	"muster/internal/door/gateway/client"
	"muster/internal/door/gateway/client/clienttest"
	"muster/internal/kit/limit"
)

// site is a gateway that lets alice in to one place, whose files are those of this host.
type site struct {
	testing.TB
	*files.Files
	*clienttest.Gateway
	home    string
	answers func(ssh.Channel) // instead of a server of SFTP
}

var alice = clienttest.Alice()

func newSite(t *testing.T, change func(*files.Limits)) *site {
	t.Helper()
	limits := files.UsualLimits()
	if change != nil {
		change(&limits)
	}
	s := &site{TB: t, home: t.TempDir()}
	s.Gateway = clienttest.New(t, s.session)
	s.Files = files.New(s.Client, limits, nil)
	return s
}

func (s *site) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for r := range requests {
		_ = r.Reply(r.Type == "subsystem", nil)
		if r.Type != "subsystem" {
			continue
		}
		go ssh.DiscardRequests(requests)
		if s.answers != nil {
			s.answers(channel)
			return
		}
		server, err := sftp.NewServer(channel, sftp.WithServerWorkingDirectory(s.home))
		if err == nil {
			_ = server.Serve()
		}
		return
	}
}

// enter begins a session, which ends with the test.
func (s *site) enter(ctx context.Context) (*files.Session, error) {
	session, err := s.Open(ctx, alice, "c1", clienttest.Place)
	if err == nil {
		s.Cleanup(session.Close)
	}
	return session, err
}

func (s *site) must() *files.Session {
	s.Helper()
	session, err := s.enter(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return session
}

// there are the names of what is in the home.
func (s *site) there() (names []string) {
	s.Helper()
	entries, err := os.ReadDir(s.home)
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (s *site) write(name, text string, mode os.FileMode) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.home, name), []byte(text), mode); err != nil {
		s.Fatal(err)
	}
}

func refused(err error) bool {
	var refusal *files.Refusal
	return errors.As(err, &refusal)
}

func TestADirectoryIsListed(t *testing.T) {
	s := newSite(t, func(l *files.Limits) { l.Entries = 5 })
	s.write("mesh.cgns", "12345", 0o640)
	s.write(".profile", "", 0o644)
	s.write("b\xff", "no UTF-8", 0o644)
	for _, name := range []string{"results", "archive"} {
		if err := os.Mkdir(filepath.Join(s.home, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"scratch": "results", "nowhere": "gone", "z": "mesh.cgns"} {
		if err := os.Symlink(to, filepath.Join(s.home, name)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.must().List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range got.Entries {
		names = append(names, e.Name)
		switch e.Name {
		case "mesh.cgns":
			if e.Size != 5 || e.Mode != 0o640 || e.Directory || time.Since(e.Modified) > time.Hour {
				t.Errorf("%+v", e)
			}
		case "scratch":
			if !e.Directory || e.Mode.Type() != fs.ModeSymlink {
				t.Errorf("%+v", e)
			}
		}
	}
	want := []string{"archive", "results", "scratch", ".profile", "mesh.cgns"}
	if !slices.Equal(names, want) || got.Omitted != 3 || got.Path != s.home {
		t.Errorf("%v of %s, and %d more", names, got.Path, got.Omitted)
	}
	if _, err := s.must().List(t.Context(), "mesh.cgns"); !refused(err) {
		t.Error(err)
	}
	if _, err := s.must().List(t.Context(), "gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestAFileIsWrittenAndRead(t *testing.T) {
	s := newSite(t, nil)
	text := make([]byte, 3<<20+17)
	_, _ = rand.Read(text)
	if err := s.must().Write(t.Context(), "case", false, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	content, err := s.must().Read("case")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if content.Size() != int64(len(text)) || time.Since(content.Modified) > time.Hour {
		t.Errorf("%d bytes, of %s", content.Size(), content.Modified)
	}
	if err := iotest.TestReader(content, text); err != nil {
		t.Error(err)
	}
	if got := s.there(); !slices.Equal(got, []string{"case"}) {
		t.Error(got)
	}
	if _, err := s.must().Read("."); !refused(err) {
		t.Error(err)
	}

	if err := s.must().Write(t.Context(), "case", false, strings.NewReader("other")); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	s.write("run.sh", "#!/bin/sh", 0o750)
	if err := s.must().Write(t.Context(), "run.sh", true, strings.NewReader("other")); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(s.home, "run.sh"))
	if err != nil || info.Mode() != 0o750 || info.Size() != 5 {
		t.Errorf("%v %v", info, err)
	}
}

func TestAFileIsWholeOrNotThere(t *testing.T) {
	s := newSite(t, nil)
	s.write("case", "old", 0o644)
	broken := func() io.Reader {
		return io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	for name, replace := range map[string]bool{"new": false, "case": true} {
		if err := s.must().Write(t.Context(), name, replace, broken()); !errors.Is(err, files.ErrUnfinished) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends := io.MultiReader(strings.NewReader("new"), reads(func([]byte) (int, error) { cancel(); return 0, nil }), broken())
	if err := s.must().Write(ctx, "case", true, ends); !errors.Is(err, files.ErrUnfinished) {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(s.home, "case")); string(text) != "old" {
		t.Error(string(text), err)
	}
	if got := s.there(); !slices.Equal(got, []string{"case"}) {
		t.Error(got)
	}
}

func TestTwoUploadsOfOneFileAreEachWhole(t *testing.T) {
	s := newSite(t, nil)
	s.write("case", "old", 0o600)
	s.write("case.part", "somebody's own", 0o644)
	half, go1 := make(chan struct{}), make(chan struct{})
	slow := io.MultiReader(strings.NewReader(strings.Repeat("1", 1<<20)), reads(func([]byte) (int, error) {
		close(half)
		<-go1
		return 0, io.EOF
	}), strings.NewReader("1"))
	first := make(chan error, 1)
	one := s.must()
	go func() { first <- one.Write(t.Context(), "case", true, slow) }()
	<-half
	for _, name := range s.there() {
		if info, err := os.Stat(filepath.Join(s.home, name)); err != nil || info.Mode() != 0o600 && name != "case.part" {
			t.Errorf("%s may be read while it is written: %v %v", name, info.Mode(), err)
		}
	}
	is := func(letter string, size int) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(s.home, "case"))
		if err != nil || string(text) != strings.Repeat(letter, size) {
			t.Errorf("%d bytes: %.20q… %v", len(text), text, err)
		}
	}
	if err := s.must().Write(t.Context(), "case", true, strings.NewReader("22")); err != nil {
		t.Error(err)
	}
	is("2", 2)
	close(go1)
	if err := <-first; err != nil {
		t.Error(err)
	}
	is("1", 1<<20+1)
	if got := s.there(); !slices.Equal(got, []string{"case", "case.part"}) {
		t.Error(got)
	}
}

// reads is a reader that is a function.
type reads func([]byte) (int, error)

func (r reads) Read(into []byte) (int, error) { return r(into) }

func TestFilesAreMovedAndDeleted(t *testing.T) {
	s := newSite(t, nil)
	s.write("a", "a", 0o644)
	s.write("b", "b", 0o644)
	all := s.must()
	for what, err := range map[string]error{"over another": all.Move("a", "b"),
		"a directory over a file": all.MakeDirectory("b")} {
		if !errors.Is(err, fs.ErrExist) {
			t.Error(what, err)
		}
	}
	if err := errors.Join(all.MakeDirectory("d"), all.Move("a", "d/a"), all.Remove("b")); err != nil {
		t.Fatal(err)
	}
	if err := all.Remove("d"); !refused(err) {
		t.Errorf("a directory in which something is: %v", err)
	}
	if err := errors.Join(all.Remove("d/a"), all.Remove("d")); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{"move": all.Move("a", "c"), "delete": all.Remove("a"),
		"in none": all.MakeDirectory("d/e")} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error(what, err)
		}
	}
	if got := s.there(); got != nil {
		t.Error(got)
	}
}

func TestRequestsShareAConnectionWhileItIsUsed(t *testing.T) {
	s := newSite(t, func(l *files.Limits) { l.Idle = 100 * time.Millisecond })
	first := s.must()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			one, err := s.Open(t.Context(), alice, "c1", clienttest.Place)
			if err != nil {
				t.Error(err)
				return
			}
			defer one.Close()
			if err := one.Remove("gone"); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	first.Close()
	if n := s.Begun.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	for end := time.Now().Add(time.Minute); s.Connected() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("one that nobody uses stays")
		}
	}
	held := s.must()
	if _, err := held.List(t.Context(), ""); err != nil || s.Begun.Load() != 2 {
		t.Error(err, s.Begun.Load())
	}
	s.Cut()
	if _, err := held.List(t.Context(), ""); err == nil {
		t.Error("it goes on where it was cut")
	}
	if _, err := s.must().List(t.Context(), ""); err != nil {
		t.Errorf("the next one is cut too: %v", err)
	}
}

func TestConnectionsForFilesAreSharesOfPersons(t *testing.T) {
	s := newSite(t, func(l *files.Limits) { l.Each, l.Lists = 1, [2]int{0, 8} })
	used := s.must()
	other := alice
	other.Owner = "alice's other browser"
	var over *limit.Over
	if _, err := s.Open(t.Context(), other, "c1", clienttest.Place); !errors.As(err, &over) || !over.Own {
		t.Error(err)
	}
	if _, err := used.List(t.Context(), ""); !errors.As(err, &over) || !over.Own {
		t.Error(err)
	}
	used.Close()
	now, err := s.Open(t.Context(), other, "c1", clienttest.Place)
	if err != nil {
		t.Fatalf("one that nobody uses is not ended for another: %v", err)
	}
	now.Close()
}

func TestWhoIsNotLetInReadsWhy(t *testing.T) {
	s := newSite(t, nil)
	s.answers = func(c ssh.Channel) { _, _ = c.Stderr().Write([]byte("muster: cfd is paused\x1b[31m\n")) }
	if _, err := s.enter(t.Context()); !refused(err) || err.Error() != `cfd is paused\x1b[31m` {
		t.Error(err)
	}
	s.answers = func(c ssh.Channel) {
		_, _ = c.Write([]byte("Welcome to cfd! Please read the news.\n"))
		_, _ = io.Copy(io.Discard, c)
	}
	if _, err := s.enter(t.Context()); !refused(err) || !strings.Contains(err.Error(), ".bashrc") {
		t.Error(err)
	}
	someone := alice
	someone.Person = "bob"
	if _, err := s.Open(t.Context(), someone, "c1", clienttest.Place); !errors.Is(err, client.ErrUnreachable) {
		t.Error(err)
	}
}

func TestAHeadThatIsSilentIsLeft(t *testing.T) {
	s := newSite(t, nil)
	asked := make(chan struct{}, 1)
	s.answers = func(c ssh.Channel) {
		asked <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := s.enter(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	impatient := newSite(t, func(l *files.Limits) { l.Patience = 200 * time.Millisecond })
	impatient.answers = func(c ssh.Channel) { _, _ = io.Copy(io.Discard, c) }
	if _, err := impatient.enter(t.Context()); !errors.Is(err, files.ErrSilent) {
		t.Error(err)
	}
}

func TestAHeadThatFallsSilentIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		takes int64 // bytes; what comes after them it does not read
		act   func(*files.Session) error
	}{
		"list":  {40, func(all *files.Session) error { _, err := all.List(t.Context(), ""); return err }},
		"write": {8 << 20, func(all *files.Session) error { return all.Write(t.Context(), "big", false, zeros{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(l *files.Limits) { l.Patience = 15 * time.Second })
			s.answers = func(channel ssh.Channel) {
				stuck := reads(func([]byte) (int, error) { <-t.Context().Done(); return 0, io.EOF })
				input := io.MultiReader(io.LimitReader(channel, c.takes), stuck)
				if server, err := sftp.NewServer(both{input, channel}, sftp.WithServerWorkingDirectory(s.home)); err == nil {
					_ = server.Serve()
				}
			}
			if err := c.act(s.must()); !errors.Is(err, files.ErrSilent) {
				t.Error(err)
			}
		})
	}
}

// both are the two directions of a connection.
type both struct {
	io.Reader
	io.WriteCloser
}

// zeros is a body without end.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) { return len(into), nil }

func TestAListingThatNeverEndsIsCut(t *testing.T) {
	s := newSite(t, func(l *files.Limits) { l.Listing = 1 << 20 })
	s.answers = func(c ssh.Channel) {
		_ = sftp.NewRequestServer(c, sftp.Handlers{FileList: endless{}}).Serve()
	}
	if _, err := s.must().List(t.Context(), "/"); !refused(err) || !strings.Contains(err.Error(), "too many") {
		t.Error(err)
	}
}

// endless is a directory without end.
type endless struct{}

func (endless) Filelist(r *sftp.Request) (sftp.ListerAt, error) { return endless{}, nil }

func (endless) ListAt(into []os.FileInfo, _ int64) (int, error) {
	for i := range into {
		into[i] = entry{}
	}
	return len(into), nil
}

type entry struct{}

func (entry) Name() string       { return "again" }
func (entry) Size() int64        { return 0 }
func (entry) Mode() os.FileMode  { return os.ModeDir | 0o755 }
func (entry) ModTime() time.Time { return time.Time{} }
func (entry) IsDir() bool        { return true }
func (entry) Sys() any           { return nil }
