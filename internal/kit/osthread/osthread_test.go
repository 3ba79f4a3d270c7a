package osthread

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// All threads are taken at once, the first among them, so that each of them would show what was done to it.
func TestNothingElseRunsOnASpentThread(t *testing.T) {
	const many = 50
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		seen = map[int]bool{}
	)
	for range many {
		all.Go(func() {
			err := Spend(func() error {
				mu.Lock()
				defer mu.Unlock()
				tid := unix.Gettid()
				if tid == os.Getpid() {
					return errors.New("it is the first thread")
				}
				if seen[tid] {
					return errors.New("thread " + strconv.Itoa(tid) + " was spent before")
				}
				seen[tid] = true
				return unix.Unshare(unix.CLONE_FS) // which does not come back
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(seen) != many {
		t.Errorf("%d threads", len(seen))
	}
}

func TestTheErrorOfWhatRanIsReturned(t *testing.T) {
	failed := errors.New("failed")
	if err := Spend(func() error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}
