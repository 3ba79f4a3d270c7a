// Package clock waits. What enters: a context and a length of time. What leaves: why the wait ended early, if it did.
package clock

import (
	"context"
	"time"
)

// Sleep waits for d. It returns early, with ctx's cause, when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wake tells the one who waits at c that there is something to do. c has room for one such word: a second says nothing new.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
