package onhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
	"muster/internal/kit/locks"
)

// Hold is an exclusive lock that is held.
type Hold struct {
	file *os.File
	path string
}

// Release gives it back. The file is removed while it is still held: a process that waits for it sees that it is no longer the
// one at path, and starts over.
func (h *Hold) Release() {
	if isAt(h.file, h.path) {
		os.Remove(h.path)
	}
	h.file.Close()
}

// Lost is an error once the lock has been forfeited to another process, which happens to one that was stopped. Ask
// before each step that the other may have taken over.
func (h *Hold) Lost() error {
	if !isAt(h.file, h.path) {
		return fmt.Errorf("another process has taken over the lock %s: this one had stopped", h.path)
	}
	return nil
}

// Exclusive holds a file's flock for the caller alone; it blocks until it has it or ctx ends. The kernel gives the
// lock back when its holder dies; a holder that is stopped forfeits it.
func Exclusive(ctx context.Context, path string) (*Hold, error) {
	file, err := lock(ctx, path, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return &Hold{file, path}, nil
}

// Shared holds it together with other sharers. The file stays, for the next exclusive holder to remove: another
// sharer may be holding it.
func Shared(ctx context.Context, path string) (unlock func(), err error) {
	file, err := lock(ctx, path, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	return func() { file.Close() }, nil
}

// Sweep removes the files in dir of locks that no process holds: processes that were killed leave them. Locks may be taken and
// given back meanwhile.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for locks that were left: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		file, err := tryLock(path, unix.LOCK_EX)
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if file != nil {
			(&Hold{file, path}).Release()
		}
	}
	return nil
}

// patience is how long a lock's holders may be stopped before it is taken from them.
const patience = 500 * time.Millisecond

func lock(ctx context.Context, path string, how int) (*os.File, error) {
	// Waiting by asking again keeps the wait cancellable; the holder needs milliseconds, or a node's start at most.
	const shortest, longest = 500 * time.Microsecond, 20 * time.Millisecond
	look := time.Now().Add(patience)
	for wait := shortest; ; wait = min(2*wait, longest) {
		file, err := tryLock(path, how)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		if file != nil {
			return file, nil
		}
		if time.Now().After(look) {
			look = time.Now().Add(patience)
			if err := takeForfeited(path); err != nil {
				return nil, fmt.Errorf("lock: %w", err)
			}
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, err)
		}
	}
}

// tryLock returns nil without an error if another one holds it.
func tryLock(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	held, err := locks.Flock(int(file.Fd()), how|unix.LOCK_NB)
	if held && isAt(file, path) {
		return file, nil
	}
	file.Close()
	return nil, err
}

// isAt says whether the open file is still the one that others find under path.
func isAt(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// Until asks done again and again until it says yes, fails, or ctx or the time within ends.
func Until(ctx context.Context, within time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	const shortest, longest = 200 * time.Microsecond, 20 * time.Millisecond
	for wait := shortest; ; wait = min(2*wait, longest) {
		ok, err := done()
		if ok || err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
		if ended := clock.Sleep(ctx, wait); ended != nil {
			return errors.Join(ended, err)
		}
	}
}
