// Package longpoll is how an agent waits for what is newer than what it has.
//
// What enters: a call that waits at the controller, and the revisions that other answers tell of. What leaves: the call's
// answer, or ErrNewer where the call waits although there is news.
package longpoll

import (
	"context"
	"errors"
	"sync"
)

// ErrNewer is the cause of a call's end where there is news that it missed.
var ErrNewer = errors.New("there is something newer")

// Poll is the call under way, if there is one. Its zero value has none; its methods may be called at the same time.
type Poll struct {
	mu     sync.Mutex
	after  int64
	cancel context.CancelCauseFunc // nil: no call
}

// Ask makes a call that waits for what is newer than a revision. There is one at a time.
func Ask[T any](ctx context.Context, p *Poll, after int64, call func(ctx context.Context, after int64) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.set(after, cancel)
	defer p.set(after, nil)
	return call(ctx, after)
}

func (p *Poll) set(after int64, cancel context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after, p.cancel = after, cancel
}

// Newest hears which revision the controller has.
func (p *Poll) Newest(revision int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil && revision > p.after {
		p.cancel(ErrNewer)
	}
}
