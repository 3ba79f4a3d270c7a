// Package pipes carries bytes between two connections.
package pipes

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Join copies both ways until both directions have ended, or ctx has; then it closes both connections and returns what went
// wrong. When one side has said all, the other is told so by CloseWrite and may still answer; a connection that cannot be closed
// in one direction is closed. An error in one direction ends both.
func Join(ctx context.Context, a, b io.ReadWriteCloser) error {
	ctx, over := context.WithCancel(ctx)
	defer over()
	shut := sync.OnceFunc(func() { a.Close(); b.Close() }) // the only news would be that they are closed
	context.AfterFunc(ctx, shut)
	var (
		both   sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	carry := func(to, from io.ReadWriteCloser) {
		_, err := io.Copy(to, from)
		if err == nil {
			err = closeWrite(to)
		}
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil { // else it is that they were closed
			failed = errors.Join(failed, err)
			over()
		}
	}
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
	shut()
	return failed
}

func closeWrite(c io.Closer) error {
	if half, can := c.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return c.Close()
}
