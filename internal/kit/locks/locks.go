// Package locks keeps processes from doing the same thing at once, by flock(2). The kernel gives a lock back when its holder
// dies.
package locks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
)

// Flock locks an open file, by its descriptor: how is LOCK_EX or LOCK_SH, with LOCK_NB to not wait. It is false, without an
// error, if it may not wait and somebody else holds the lock.
func Flock(fd, how int) (held bool, err error) {
	for {
		switch err := unix.Flock(fd, how); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

// ErrHeld says that somebody else holds a lock.
var ErrHeld = errors.New("somebody else holds it")

// Try makes the file at path, of mode 0600, if it is missing, and locks it for the caller alone until the file is closed, or
// ErrHeld.
func Try(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	held, err := Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if held {
		return file, nil
	}
	if err == nil {
		err = ErrHeld
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
}

// Wait is Try that waits until the lock is free, or returns ctx's cause when ctx ends. The file stays.
func Wait(ctx context.Context, path string) (release func(), err error) {
	const pause = 5 * time.Millisecond
	for {
		file, err := Try(path)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, ErrHeld) {
			return nil, err
		}
		if err := clock.Sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("waiting for %s: %w", path, err)
		}
	}
}
