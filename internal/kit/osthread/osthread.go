// Package osthread runs what changes a thread for good: its namespaces, its user, its root.
package osthread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Spend runs do on a thread of its own, which ends with it, and returns do's error. Nothing else ever runs on that thread. It is
// not the process's first: that one cannot end, and the whole process would be taken for what it has become (/proc/self).
func Spend(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: so the thread ends with this goroutine
		if unix.Gettid() == unix.Getpid() {
			done <- Spend(do) // the first thread waits here while another is chosen
			runtime.UnlockOSThread()
			return
		}
		done <- do()
	}()
	return <-done
}
