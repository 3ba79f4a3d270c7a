package tree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/local/tree"
	"muster/internal/kit/testall"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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

	_, err = (&tree.Copy{Without: []string{"own"}}).Tree(t.Context(), from, to)
	check(t, err)
	for _, name := range []string{"home", "home/alice", "home/alice/work/program", "home/alice/second-name", "home/alice/outside",
		"home/alice/dangling", "home/alice/empty", "home/alice/sparse"} {
		was, err := os.Lstat(at(name))
		check(t, err)
		is, err := os.Lstat(filepath.Join(to, name))
		if err != nil {
			t.Error(err)
			continue
		}
		a, b := was.Sys().(*syscall.Stat_t), is.Sys().(*syscall.Stat_t)
		if was.Mode() != is.Mode() || was.Size() != is.Size() && !was.IsDir() || a.Uid != b.Uid || a.Gid != b.Gid {
			t.Errorf("%s: %v %d %d:%d was copied as %v %d %d:%d", name, was.Mode(), was.Size(), a.Uid, a.Gid, is.Mode(),
				is.Size(), b.Uid, b.Gid)
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
	if n, err := unix.Getxattr(filepath.Join(to, "home/alice/work/program"), "user.colour", value); err != nil ||
		string(value[:n]) != "blue" {
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

// bottomSize is how much is in the file at the end of a chain, in bytes.
const bottomSize = 1 << 20

// inMemory is a folder in memory: what takes a disk minutes, and says nothing of this package, takes seconds there.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "tree-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { check(t, tree.Remove(context.WithoutCancel(t.Context()), dir)) })
	return dir
}

// chain makes directories one in the other, as a user would, and a file in the last.
func chain(t testing.TB, top string, levels int, name func(int) string) {
	t.Helper()
	check(t, os.MkdirAll(top, 0o755))
	fd, err := unix.Open(top, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	for i := range levels {
		check(t, unix.Mkdirat(fd, name(i), 0o755))
		next, err := unix.Openat(fd, name(i), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		check(t, err)
		unix.Close(fd)
		fd = next
	}
	bottom, err := unix.Openat(fd, "bottom", unix.O_CREAT|unix.O_WRONLY, 0o644)
	check(t, err)
	_, err = unix.Write(bottom, make([]byte, bottomSize))
	check(t, err)
	unix.Close(bottom)
	unix.Close(fd)
}

// depth goes down a chain and says how long it is.
func depth(t testing.TB, top string, name func(int) string) int {
	t.Helper()
	fd, err := unix.Open(top, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	for i := 0; ; i++ {
		next, err := unix.Openat(fd, name(i), unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			var stat unix.Stat_t
			if err := unix.Fstatat(fd, "bottom", &stat, 0); err != nil {
				t.Errorf("level %d has no bottom: %v", i, err)
			}
			unix.Close(fd)
			return i
		}
		unix.Close(fd)
		fd = next
	}
}

// most counts this process's descriptors until it is asked how many there were at most.
func most() func() int {
	var top atomic.Int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			entries, _ := os.ReadDir("/proc/self/fd")
			top.Store(max(top.Load(), int64(len(entries))))
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() int {
		close(done)
		<-ended
		return int(top.Load())
	}
}

func TestATreeOf25000LevelsTakesFewDescriptors(t *testing.T) {
	testall.Only(t)
	long := strings.Repeat("n", 254)
	for what, name := range map[string]func(int) string{
		"short":    func(int) string { return "d" },
		"longest":  func(i int) string { return long + string(rune('a'+i%26)) },
		"not text": func(i int) string { return []string{"\xff\xfe", "a\nb", "\x1b[2J", "-rf", "..."}[i%5] },
	} {
		t.Run(what, func(t *testing.T) {
			dir := inMemory(t)
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			const levels = 25000
			chain(t, from, levels, name)
			count := most()
			size, report, err := tree.Size(t.Context(), from)
			check(t, err)
			if report.Count > 0 || size < bottomSize {
				t.Errorf("it takes %d bytes; %v", size, report)
			}
			report, err = new(tree.Copy).Tree(t.Context(), from, to)
			check(t, err)
			if report.Count > 0 {
				t.Error(report)
			}
			if n := depth(t, to, name); n != levels {
				t.Errorf("the copy has %d levels", n)
			}
			for _, dir := range []string{from, to} {
				check(t, tree.Remove(t.Context(), dir))
				if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("left: %s, %v", dir, err)
				}
			}
			if n := count(); n > 120 {
				t.Errorf("%d descriptors were open", n)
			}
		})
	}
}

// TestAPassGoesDownSoFarOnly: the kernel keeps all directories above an open one, in memory that is the host's.
func TestAPassGoesDownSoFarOnly(t *testing.T) {
	dir := inMemory(t)
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	const levels, deepest = 40_000, 32<<10 - 16
	chain(t, from, levels, func(int) string { return "d" })
	report, err := new(tree.Copy).Tree(t.Context(), from, to)
	check(t, err)
	if report.Count != 1 || !strings.Contains(report.String(), "too deep") {
		t.Error(report)
	}
	fd, err := unix.Open(to, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	copied := 0
	for ; err == nil; copied++ {
		var next int
		if next, err = unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			unix.Close(fd)
			fd = next
		}
	}
	unix.Close(fd)
	if copied--; copied != deepest {
		t.Errorf("%d levels were copied", copied)
	}
	watched := make(chan int)
	removed := make(chan struct{})
	go func() { // who looks sees that what is deeper comes up
		raised := map[string]bool{}
		for {
			found, _ := filepath.Glob(filepath.Join(from, ".deep-*"))
			for _, path := range found {
				raised[path] = true
			}
			select {
			case <-removed:
				watched <- len(raised)
				return
			default:
			}
		}
	}()
	err = tree.Remove(t.Context(), from)
	close(removed)
	if n := <-watched; n != 1 || err != nil {
		t.Errorf("%d parts came up: %v", n, err)
	}
	if _, err := os.Lstat(from); !errors.Is(err, fs.ErrNotExist) {
		t.Error("left: ", err)
	}
}

// TestDepthCostsTimeInProportion compares the CPU time of two trees in memory, one eight times as deep as the other.
func TestDepthCostsTimeInProportion(t *testing.T) {
	testall.Only(t)
	memory := inMemory(t)
	spent := func() time.Duration {
		var used unix.Rusage
		check(t, unix.Getrusage(unix.RUSAGE_SELF, &used))
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	took := func(levels int) time.Duration {
		dir := filepath.Join(memory, "deep")
		chain(t, dir, levels, func(int) string { return "d" })
		start := spent()
		_, _, err := tree.Size(t.Context(), dir)
		check(t, err)
		check(t, tree.Remove(t.Context(), dir))
		return spent() - start
	}
	took(1000)
	short, long := took(4000), took(32_000)
	t.Logf("4,000 levels: %v, 32,000: %v", short, long)
	if long > 24*short { // 8 times; 64 if each level went back to the top
		t.Errorf("4,000 levels took %v, 32,000 took %v", short, long)
	}
}

func TestAWideFolderIsReadInPieces(t *testing.T) {
	entries := 200_000
	if testing.Short() {
		entries = 20_000
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	check(t, os.Mkdir(from, 0o755))
	fd, err := unix.Open(from, unix.O_DIRECTORY, 0)
	check(t, err)
	defer unix.Close(fd)
	for i := range entries {
		name := fmt.Sprintf("%0200d", i)
		if i%100 == 0 {
			check(t, unix.Mkdirat(fd, name, 0o755))
			continue
		}
		if i%1000 == 1 {
			check(t, os.WriteFile(filepath.Join(from, "of several names"), nil, 0o644))
		}
		check(t, unix.Linkat(fd, "of several names", fd, name, 0))
		if i%1000 == 999 {
			check(t, unix.Unlinkat(fd, "of several names", 0))
		}
	}
	_, report, err := tree.Size(t.Context(), from)
	check(t, err)
	copied, err := new(tree.Copy).Tree(t.Context(), from, to)
	check(t, err)
	if report.Count > 0 || copied.Count > 0 {
		t.Error(report, copied)
	}
	made, err := os.ReadDir(to)
	check(t, err)
	if len(made) != entries {
		t.Errorf("%d of %d entries were copied", len(made), entries)
	}
	check(t, tree.Remove(t.Context(), from))
	check(t, tree.Remove(t.Context(), to))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error("left:", left, err)
	}
}

// TestALinkInTheWayLeadsNowhere has a user swap directories and files for links to elsewhere while root works on them.
func TestALinkInTheWayLeadsNowhere(t *testing.T) {
	dir := t.TempDir()
	secret, from := filepath.Join(dir, "secret"), filepath.Join(dir, "from")
	check(t, os.Mkdir(secret, 0o755))
	check(t, os.WriteFile(filepath.Join(secret, "file"), []byte("secret"), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "secret file"), []byte("secret"), 0o644))
	at := func(name string) string { return filepath.Join(from, name) }
	check(t, os.MkdirAll(at("real/below"), 0o755))
	check(t, os.WriteFile(at("real/below/file"), []byte("mine"), 0o644))
	check(t, os.WriteFile(at("mine"), []byte("mine"), 0o644))
	ctx, stop := context.WithCancel(t.Context())
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		for ctx.Err() == nil {
			_ = os.Rename(at("real"), at("a"))
			_ = os.Rename(at("a"), at("real"))
			_ = os.Symlink(secret, at("a"))
			_ = os.Rename(at("a"), at("b"))
			_ = os.Remove(at("b"))
			_ = os.Rename(at("mine"), at("f"))
			_ = os.Rename(at("f"), at("mine"))
			_ = os.Symlink(filepath.Join(dir, "secret file"), at("f"))
			_ = os.Remove(at("f"))
		}
	}()
	for i := range 2000 {
		to := filepath.Join(dir, "to")
		_, err := new(tree.Copy).Tree(t.Context(), from, to)
		check(t, err)
		err = filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			if text, err := os.ReadFile(path); err != nil || string(text) == "secret" {
				t.Errorf("copy %d: %s holds %q, %v", i, path, text, err)
			}
			return nil
		})
		check(t, err)
		check(t, tree.Remove(t.Context(), to))
	}
	stop()
	<-swapped
	for range 200 { // and where it removes
		ctx, stop := context.WithCancel(t.Context())
		swapped := make(chan struct{})
		go func() {
			defer close(swapped)
			for ctx.Err() == nil {
				_ = os.MkdirAll(at("a"), 0o755)
				_ = os.Remove(at("a"))
				_ = os.Symlink(secret, at("a"))
				_ = os.Remove(at("a"))
			}
		}()
		_ = tree.Remove(t.Context(), from) // what is made meanwhile may be left
		stop()
		<-swapped
	}
	if text, err := os.ReadFile(filepath.Join(secret, "file")); err != nil || string(text) != "secret" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestADirectoryThatIsMovedAwayIsNotFollowed moves the middle of a deep tree out of it while the walk is below.
func TestADirectoryThatIsMovedAwayIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	from, elsewhere := filepath.Join(dir, "from"), filepath.Join(dir, "elsewhere")
	name := func(int) string { return "d" }
	check(t, os.MkdirAll(filepath.Join(elsewhere, "kept"), 0o755))
	check(t, os.WriteFile(filepath.Join(elsewhere, "kept", "file"), []byte("kept"), 0o644))
	chain(t, from, 3000, name)
	check(t, os.Mkdir(filepath.Join(from, "z"), 0o755))
	moved := false
	copying := tree.Copy{Progress: func(copied int64) error { // at the bottom, where the only file is
		if copied > 0 && !moved {
			moved = true
			return os.Rename(filepath.Join(from, strings.Repeat("d/", 100)), filepath.Join(elsewhere, "d"))
		}
		return nil
	}}
	report, err := copying.Tree(t.Context(), from, filepath.Join(dir, "to"))
	check(t, err)
	if !moved || report.Count == 0 || !strings.Contains(report.String(), "moved away") {
		t.Errorf("moved %v, report %q", moved, report)
	}
	if _, err := os.Stat(filepath.Join(dir, "to", "kept")); err == nil {
		t.Error("the walk came out elsewhere")
	}
	if _, err := os.Stat(filepath.Join(dir, "to", "z")); err != nil {
		t.Error("the rest was not copied:", err)
	}
	if text, err := os.ReadFile(filepath.Join(elsewhere, "kept", "file")); string(text) != "kept" {
		t.Error(err)
	}
	for _, dir := range []string{from, elsewhere, filepath.Join(dir, "to")} {
		check(t, tree.Remove(t.Context(), dir))
	}
}

func TestFlagsDoNotKeepATreeFromBeingRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	check(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "a/b/file"), nil, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "a/b/log"), nil, 0o600))
	for name, flags := range map[string]int{"a/b/file": 0x10, "a/b/log": 0x20, "a/b": 0x10, "a": 0x20, ".": 0x10} {
		f, err := os.Open(filepath.Join(dir, name))
		check(t, err)
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
			t.Skipf("skipped: flags cannot be set here: %v", err)
		}
		check(t, f.Close())
	}
	if err := os.RemoveAll(dir); err == nil {
		t.Fatal("the flags mean nothing")
	}
	check(t, tree.Remove(t.Context(), dir))
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestWhatIsMountedInATreeStays(t *testing.T) {
	dir := t.TempDir()
	mount := filepath.Join(dir, "tree/a/mount")
	check(t, os.MkdirAll(mount, 0o755))
	if err := unix.Mount("none", mount, "tmpfs", 0, ""); err != nil {
		t.Skipf("skipped: nothing can be mounted: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(mount, 0)) })
	check(t, os.WriteFile(filepath.Join(mount, "file"), []byte("kept"), 0o600))
	if err := tree.Remove(t.Context(), filepath.Join(dir, "tree")); err == nil || !strings.Contains(err.Error(), "a/mount") {
		t.Error(err)
	}
	report, err := new(tree.Copy).Tree(t.Context(), filepath.Join(dir, "tree"), filepath.Join(dir, "copy"))
	if err != nil || report.Count != 1 {
		t.Error(report, err)
	}
	if text, err := os.ReadFile(filepath.Join(mount, "file")); string(text) != "kept" {
		t.Error(text, err)
	}
}

func TestAFileOfSeveralNamesCountsOnce(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 1<<20), 0o600))
	once, _, err := tree.Size(t.Context(), dir)
	check(t, err)
	for i := range 6 {
		check(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, fmt.Sprint(i))))
	}
	again, _, err := tree.Size(t.Context(), dir)
	check(t, err)
	if again-once > 8192 || once < 1<<20 {
		t.Errorf("%d bytes, and %d with more names", once, again)
	}
}

func TestAPassEndsWhenItIsCalledOff(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	chain(t, dir, 100, func(int) string { return "d" })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := tree.Size(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := tree.Remove(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := new(tree.Copy).Tree(ctx, dir, dir+".copy"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	enough := errors.New("enough")
	copying := tree.Copy{Progress: func(int64) error { return enough }}
	if _, err := copying.Tree(t.Context(), dir, dir+".other"); !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestNothingThereIsNoError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if n, report, err := tree.Size(t.Context(), dir); n != 0 || report.Count != 0 || err != nil {
		t.Error(n, report, err)
	}
	check(t, tree.Remove(t.Context(), dir))
}
