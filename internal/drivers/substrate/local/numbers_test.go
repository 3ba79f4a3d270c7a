package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A node that opened terminals, began asynchronous I/O or watched files until it could not left none to anybody else.
func TestANodeLeavesToOthersWhatAHostHasFewOf(t *testing.T) {
	w := open(t, site(t))
	check(t, widen(fewNumbers()))
	n := node("c1", 1, 1, "/home/hoarder")
	check(t, w.EnsureShared(t.Context(), n.Cluster, alone))
	c, err := w.shared(n.Cluster)
	check(t, err)
	build(t, "hoarder", c.home())
	w.up(t, n)
	var text []byte
	eventually(t, "it has all that it can have", func() bool {
		text, err = os.ReadFile(filepath.Join(c.home(), "has"))
		return err == nil
	})
	if got := strings.TrimSpace(string(text)); got != fmt.Sprint(mostTerminals, " ", 64, " ", 1000, " ", false) {
		t.Errorf("a node has %q terminals, contexts of 2000 requests, instances of inotify, and a large console", got)
	}
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Error("no terminal is left: ", err)
	}
	_ = f.Close()
	if watch, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
		t.Error("no inotify is left: ", err)
	} else {
		_ = unix.Close(watch)
	}
	var context uint64
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 2000, uintptr(unsafe.Pointer(&context)), 0); errno != 0 {
		t.Error("no asynchronous I/O is left: ", errno)
	}
	unix.Syscall(unix.SYS_IO_DESTROY, uintptr(context), 0, 0)
}

func TestSettingsAreRaisedAndNeverLowered(t *testing.T) {
	dir := t.TempDir()
	low, high, several := filepath.Join(dir, "low"), filepath.Join(dir, "high"), filepath.Join(dir, "several")
	check(t, os.WriteFile(low, []byte("4096\n"), 0o600))
	check(t, os.WriteFile(high, []byte("1000000\n"), 0o600))
	check(t, os.WriteFile(several, []byte("4096\t8192\t1000000\n"), 0o600))
	check(t, widen(map[string]int64{low: 65536, high: 65536, several: 65536, filepath.Join(dir, "none"): 1}))
	for path, want := range map[string]string{low: "65536", high: "1000000\n", several: "65536 65536 1000000"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is %q: %v", path, got, err)
		}
	}
	check(t, os.WriteFile(low, []byte("odd"), 0o600))
	if err := widen(map[string]int64{low: 1}); err == nil || !strings.Contains(err.Error(), low) {
		t.Error(err)
	}
}

func TestCoresOfNodesAreForNoProgramOfTheHost(t *testing.T) {
	if got := coreLimit([]byte("|/usr/lib/systemd/systemd-coredump %P\n")); len(got) != 1 || got[0].Hard != 1 {
		t.Errorf("%v", got)
	}
	if got := coreLimit([]byte("core\n")); got != nil {
		t.Errorf("%v", got)
	}
}

// Who has a node's console open, such as another node that was handed the file, does not keep the node from being removed.
func TestANodeIsRemovedWhoeverHasItsConsoleOpen(t *testing.T) {
	w := open(t, site(t))
	n := node("c1", 1, 1, "echo said; sleep 1000")
	b := w.up(t, n)
	console, err := os.OpenFile(b.console(), os.O_RDWR, 0)
	check(t, err)
	defer console.Close()
	eventually(t, "it has said something", func() bool {
		info, err := console.Stat()
		return err == nil && info.Size() > 0
	})
	check(t, w.Remove(t.Context(), n.Ref))
	if info, err := console.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("what it has said takes memory: %v, %v", info, err)
	}
}
