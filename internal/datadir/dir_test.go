package datadir

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheDataDirectoryIsForRootAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("directories of others are not tested: this needs root")
	}
	base := t.TempDir()
	for path := base; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	try := func(path string) (said string, err error) {
		t.Helper()
		var log bytes.Buffer
		err = Dir(path).Make(slog.New(slog.NewTextHandler(&log, nil)))
		return log.String(), err
	}
	mode := func(path string, want os.FileMode) {
		t.Helper()
		about, err := os.Stat(path)
		if err != nil || about.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v (%v)", path, about.Mode(), want, err)
		}
	}
	folder := func(name string, mode os.FileMode, owner int) string {
		t.Helper()
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}

	if said, err := try(filepath.Join(base, "new/data")); err != nil || said != "" {
		t.Error(said, err)
	}
	mode(filepath.Join(base, "new/data"), 0o700)

	open := folder("open", 0o755, 0)
	if said, err := try(open); err != nil || !strings.Contains(said, "its mode is now 0700") ||
		!strings.Contains(said, "mode_was=-rwxr-xr-x") {
		t.Error(said, err)
	}
	mode(open, 0o700)
	if said, err := try(open); err != nil || said != "" {
		t.Error("at the next start:", said, err)
	}

	link := filepath.Join(base, "link")
	if err := os.Symlink(folder("behind", 0o750, 0), link); err != nil {
		t.Fatal(err)
	}
	if said, err := try(link); err != nil || !strings.Contains(said, "its mode is now") {
		t.Error("by a link:", said, err)
	}
	mode(filepath.Join(base, "behind"), 0o700)

	if _, err := try(folder("theirs", 0o700, 4242)); err == nil || !strings.Contains(err.Error(), "user 4242 owns it") {
		t.Error("somebody else's:", err)
	}
	shared := folder("shared", 0o777|os.ModeSticky, 0)
	if _, err := try(shared); err == nil || !strings.Contains(err.Error(), "directory of its own") {
		t.Error("one for everybody:", err)
	}
	mode(shared, 0o777)
	if theSystems.MatchString("/var/lib/muster") || theSystems.MatchString("/srv/x") || !theSystems.MatchString("/var/lib") ||
		!theSystems.MatchString("/") {
		t.Error("the system's directories are others")
	}

	folder("above", 0o777, 0)
	if said, err := try(filepath.Join(base, "above/data")); err != nil ||
		!strings.Contains(said, "users other than root can replace") {
		t.Error(said, err)
	}
	folder("user", 0o755, 4242)
	if said, err := try(filepath.Join(base, "user/below/data")); err != nil ||
		!strings.Contains(said, filepath.Join(base, "user")) {
		t.Error(said, err)
	}
}
