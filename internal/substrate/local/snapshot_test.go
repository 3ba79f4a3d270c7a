package local

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/substrate"
)

func TestACopyIsLikeItsOriginal(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: owners of files are changed by root alone")
	}
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	at := func(name string) string { return filepath.Join(from, name) }
	long := time.Date(2020, 2, 29, 12, 0, 0, 123456789, time.UTC)
	check(t, os.MkdirAll(at("home/alice/work"), 0o755))
	check(t, os.WriteFile(at("home/alice/work/program"), []byte("content"), 0o755))
	check(t, os.Chown(at("home/alice/work/program"), 10000, 10001))
	check(t, os.Chmod(at("home/alice/work/program"), 0o755|fs.ModeSetgid))
	check(t, unix.Setxattr(at("home/alice/work/program"), "user.colour", []byte("blue"), 0))
	check(t, os.Chtimes(at("home/alice/work/program"), long, long))
	check(t, os.Link(at("home/alice/work/program"), at("home/alice/second-name")))
	check(t, os.Symlink("/etc/shadow", at("home/alice/outside")))
	check(t, os.Symlink("work/nothing", at("home/alice/dangling")))
	check(t, unix.Mkfifo(at("home/alice/pipe"), 0o600))
	check(t, os.WriteFile(at("home/alice/empty"), nil, 0o400))
	sparse, err := os.Create(at("home/alice/sparse"))
	check(t, err)
	_, err = sparse.WriteAt([]byte("far"), 1<<30)
	check(t, err)
	check(t, sparse.Truncate(2<<30))
	check(t, sparse.Close())
	check(t, os.Mkdir(at("own"), 0o700))
	check(t, os.WriteFile(at("own/key"), []byte("secret"), 0o600))
	check(t, os.Chmod(at("home/alice"), 0o1770))
	check(t, os.Chtimes(at("home/alice"), long, long))

	check(t, newCopying(t.Context(), func(int64) error { return nil }).tree(from, to, "own"))
	for _, name := range []string{"home", "home/alice", "home/alice/work/program", "home/alice/second-name", "home/alice/outside", "home/alice/dangling", "home/alice/empty", "home/alice/sparse"} {
		was, err := os.Lstat(at(name))
		check(t, err)
		is, err := os.Lstat(filepath.Join(to, name))
		if err != nil {
			t.Error(err)
			continue
		}
		a, b := was.Sys().(*syscall.Stat_t), is.Sys().(*syscall.Stat_t)
		if was.Mode() != is.Mode() || was.Size() != is.Size() && !was.IsDir() || a.Uid != b.Uid || a.Gid != b.Gid {
			t.Errorf("%s: %v %d %d:%d was copied as %v %d %d:%d", name, was.Mode(), was.Size(), a.Uid, a.Gid, is.Mode(), is.Size(), b.Uid, b.Gid)
		}
		if was.Mode().Type() != fs.ModeSymlink && !was.ModTime().Equal(is.ModTime()) {
			t.Errorf("%s: changed at %v, its copy at %v", name, was.ModTime(), is.ModTime())
		}
		if b.Blocks > a.Blocks+64 {
			t.Errorf("%s: %d blocks became %d", name, a.Blocks, b.Blocks)
		}
	}
	one, err := os.Stat(filepath.Join(to, "home/alice/work/program"))
	check(t, err)
	other, err := os.Stat(filepath.Join(to, "home/alice/second-name"))
	check(t, err)
	if !os.SameFile(one, other) {
		t.Error("two names of one file became two files")
	}
	value := make([]byte, 10)
	if n, err := unix.Getxattr(filepath.Join(to, "home/alice/work/program"), "user.colour", value); err != nil || string(value[:n]) != "blue" {
		t.Errorf("attribute: %q, %v", value[:n], err)
	}
	far, err := os.Open(filepath.Join(to, "home/alice/sparse"))
	check(t, err)
	defer far.Close()
	text := make([]byte, 3)
	if _, err := far.ReadAt(text, 1<<30); err != nil || string(text) != "far" {
		t.Errorf("behind the hole: %q, %v", text, err)
	}
	for _, name := range []string{"own", "home/alice/pipe"} {
		if _, err := os.Lstat(filepath.Join(to, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was copied: %v", name, err)
		}
	}
}

// TestALinkInTheWayLeadsNowhere has a user swap a directory for a link to elsewhere while it is copied.
func TestALinkInTheWayLeadsNowhere(t *testing.T) {
	dir := t.TempDir()
	secret, from, to := filepath.Join(dir, "secret"), filepath.Join(dir, "from"), filepath.Join(dir, "to")
	check(t, os.MkdirAll(filepath.Join(from, "a"), 0o755))
	check(t, os.Mkdir(secret, 0o755))
	check(t, os.WriteFile(filepath.Join(secret, "file"), []byte("secret"), 0o644))
	source, err := os.OpenRoot(from)
	check(t, err)
	defer source.Close()
	check(t, os.Mkdir(to, 0o755))
	check(t, os.Remove(filepath.Join(from, "a")))
	check(t, os.Symlink(secret, filepath.Join(from, "a")))
	c := newCopying(t.Context(), func(int64) error { return nil })
	// As entry would go on after it saw a directory, and then a file in it.
	if below, err := source.OpenRoot("a"); err == nil {
		below.Close()
		t.Error("the link was followed")
	}
	if err := c.file(source, "a/file", filepath.Join(to, "file")); err == nil {
		t.Error("the link was followed")
	}
	if _, err := os.Stat(filepath.Join(to, "file")); err == nil {
		t.Error("something was copied")
	}
}

func TestACopyThatDoesNotFitIsRefusedWithNumbers(t *testing.T) {
	dir := t.TempDir()
	err := room(filepath.Join(dir, "s1"), math.MaxInt64/2)
	if shares(dir) {
		if err != nil {
			t.Errorf("copies cost nothing here, and yet: %v", err)
		}
		return
	}
	if !errors.Is(err, substrate.ErrNoRoom) || !strings.Contains(err.Error(), "MiB are free") {
		t.Error(err)
	}
	if err := room(filepath.Join(dir, "s1"), 0); err != nil && !errors.Is(err, substrate.ErrNoRoom) {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Error("left: ", left, err)
	}
}

func TestWhatAKilledControllerLeftOfACopyIsMadeAnewOrDropped(t *testing.T) {
	w := open(t, site(t))
	t.Cleanup(func() { w.down(t) })
	check(t, w.EnsureCommons(t.Context(), "c1", alone))
	w.write(t, "c1", "whole")
	s, err := w.snapshot("s1")
	check(t, err)
	check(t, os.MkdirAll(filepath.Join(s.part(), "home"), 0o755))
	check(t, os.WriteFile(filepath.Join(s.part(), "home/file"), []byte("ha"), 0o600))
	if ids, err := w.Snapshots(t.Context()); err != nil || len(ids) != 1 || ids[0] != "s1" {
		t.Error(ids, err)
	}
	if err := w.Restore(t.Context(), "s1", "c2", func(int64) error { return nil }); err == nil {
		t.Error("half a snapshot was restored")
	}
	_, err = w.Save(t.Context(), "c1", "s1", func(int64) error { return nil })
	check(t, err)
	check(t, w.Restore(t.Context(), "s1", "c2", func(int64) error { return nil }))
	if got := w.read(t, "c2"); got != "whole" {
		t.Errorf("%q", got)
	}
	check(t, os.Rename(s.dir, s.gone()))
	check(t, w.Drop(context.Background(), "s1"))
	if ids, err := w.Snapshots(t.Context()); err != nil || len(ids) != 0 {
		t.Error(ids, err)
	}
}
