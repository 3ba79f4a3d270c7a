package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/kit/testall"
)

// TestADeepTreeNeverStopsPauseOrDelete does to a cluster's /home what a member without root can do in a second, and then
// what pausing, metering, saving and deleting it ask of the driver.
func TestADeepTreeNeverStopsPauseOrDelete(t *testing.T) {
	testall.Only(t)
	state, err := os.MkdirTemp("/dev/shm", "deep-*") // a disk takes minutes
	if err != nil {
		state = t.TempDir()
	}
	t.Cleanup(func() { check(t, os.RemoveAll(state)) })
	driver, err := openAt(site(t), filepath.Join(state, "state"))
	check(t, err)
	w := fixture{driver}
	t.Cleanup(func() { w.down(t) })
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	w.write(t, "c1", "whole")
	c, err := w.shared("c1")
	check(t, err)
	const levels, size = 25000, 1 << 20 // directories in one another, bytes in the last
	check(t, os.Mkdir(filepath.Join(c.home(), "mallory"), 0o700))
	for _, name := range []string{"d", strings.Repeat("n", 255)} {
		deep(t, filepath.Join(c.home(), "mallory"), name, levels, size)
	}
	check(t, unix.Mkfifo(filepath.Join(c.home(), "mallory/pipe"), 0o600))
	var limit unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: limit.Max}))
	t.Cleanup(func() { check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) })

	// What a node writes outside of /home is as much its users' own.
	n := node("c1", 1, 1, "")
	check(t, w.Ensure(t.Context(), n))
	deep(t, filepath.Join(w.bootOf(t, n.Ref).path("root"), "tmp"), "d", levels, size)
	check(t, w.Remove(t.Context(), n.Ref))
	n.Ref.Boot = 0
	check(t, w.Remove(t.Context(), n.Ref))

	held, err := w.Size(t.Context(), "c1") // of pause, and of metering
	if err != nil || held < 2*size {
		t.Errorf("it holds %d bytes, %v", held, err)
	}
	saved, err := w.Save(t.Context(), "c1", "s1", func(int64) error { return nil })
	if err != nil || saved.LeftOut != "" {
		t.Error(saved, err)
	}
	check(t, w.RemoveShared(t.Context(), "c1"))
	check(t, w.Restore(t.Context(), "s1", "c2", 0, func(int64) error { return nil }))
	if got := w.read(t, "c2"); got != "whole" {
		t.Errorf("restored: %q", got)
	}
	if again, err := w.Size(t.Context(), "c2"); err != nil || again < 2*size {
		t.Errorf("restored are %d bytes of %d, %v", again, held, err)
	}
	check(t, w.Drop(t.Context(), "s1"))
	check(t, w.RemoveShared(t.Context(), "c2"))
	for _, folder := range []string{"clusters", "snapshots"} {
		left, err := os.ReadDir(filepath.Join(w.config.Dir, folder))
		if err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", folder, left, err)
		}
	}
}

// deep makes directories in one another, and a file in the last.
func deep(t *testing.T, top, name string, levels, size int) {
	t.Helper()
	fd, err := unix.Open(top, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	for range levels {
		check(t, unix.Mkdirat(fd, name, 0o700))
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		check(t, err)
		unix.Close(fd)
		fd = next
	}
	bottom, err := unix.Openat(fd, "bottom", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	check(t, err)
	_, err = unix.Write(bottom, make([]byte, size))
	check(t, err)
	unix.Close(bottom)
	unix.Close(fd)
}
