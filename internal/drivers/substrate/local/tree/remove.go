package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// passes bounds how often a directory is gone through that was emptied and then was not empty.
const passes = 64

// Remove removes whatever is at a path, files with their immutable or append-only flags on too, and nothing of what is
// mounted below. Nothing there is a success. What an interrupted call left, the next one removes. It fails if something
// is left in the end, and says what.
func Remove(ctx context.Context, path string) error {
	err := unlink(unix.AT_FDCWD, path, 0)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, unix.EISDIR):
		return named("remove", path, err)
	}
	var report Report
	for pass := 0; pass < passes; pass++ {
		var removed, raised bool
		if report, removed, raised, err = empty(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return named("remove", path, err)
		}
		err = unlink(unix.AT_FDCWD, path, unix.AT_REMOVEDIR)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !removed && !raised || !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
		if raised { // what was too deep is to be removed from the top on
			pass--
		}
	}
	if report.Count > 0 {
		err = fmt.Errorf("%w: could not remove %v", err, report)
	}
	return named("remove", path, err)
}

// empty removes what is in a directory; removed says that there was something, raised that some of it was so deep that its upper
// half is in the directory itself now: then the rest is within reach.
func empty(ctx context.Context, dir string) (report Report, removed, raised bool, err error) {
	inside := 0 // how much was removed, for telling whether another pass is worth it
	w := newWalk(ctx, func(l *level, name string, kind uint8) (verdict, error) {
		if kind == unix.DT_DIR {
			return below, nil
		}
		err := unlink(l.fd, name, 0)
		if errors.Is(err, unix.EISDIR) {
			return below, nil
		}
		if err == nil {
			inside++
		}
		return past, err
	})
	before := -1  // inside, when the directory that is looked at once more was last left
	deep := false // there is more below the deepest level
	w.deeper = func() { deep = true }
	w.left = func(parent *level, name string, pass int) (bool, error) {
		err := unlink(parent.fd, name, unix.AT_REMOVEDIR)
		half := len(w.levels) <= deepest/2
		switch {
		case err == nil:
			inside++
		case deep && !half && errors.Is(err, unix.ENOTEMPTY):
			return false, nil // it comes up with what is above it
		case deep && errors.Is(err, unix.ENOTEMPTY):
			deep = false
			err = unlocked(parent.fd, name, func() error {
				return unix.Renameat(parent.fd, name, w.levels[0].fd, ".deep-"+rand.Text())
			})
			if raised = raised || err == nil; err != nil { // on a full disk there is room when more has been removed
				err = fmt.Errorf("%w: %v", errDeep, err)
			}
			return false, err
		case errors.Is(err, unix.ENOTEMPTY) && pass < passes && inside != before:
			before = inside
			return true, nil
		}
		return false, err
	}
	err = w.run(dir)
	return w.report, inside > 0, raised, err
}

// unlink removes an entry, and what forbids that if it is a flag.
func unlink(dir int, name string, flags int) error {
	return unlocked(dir, name, func() error { return unix.Unlinkat(dir, name, flags) })
}

// unlocked changes an entry, and first what forbids that if it is a flag.
func unlocked(dir int, name string, change func() error) error {
	err := change()
	if errors.Is(err, unix.EPERM) {
		changed := clearFlags(dir)
		if writable(dir, name) || changed {
			err = change()
		}
	}
	return err
}

// writable takes the flags away from an entry that keep it from being removed, and says whether there were any.
func writable(dir int, name string) bool {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return false
	}
	if kind := stat.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR { // opening others may do things
		return false
	}
	// By its descriptor: it is the file that was looked at.
	file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return clearFlags(int(file.Fd()))
}

// clearFlags takes chattr's +i and +a away.
func clearFlags(fd int) bool {
	const fixed = 0x10 | 0x20 // FS_IMMUTABLE_FL, FS_APPEND_FL
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || flags&fixed == 0 {
		return false
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags&^fixed) == nil
}
