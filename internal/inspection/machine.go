package inspection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"muster/internal/inventory/hardware"
)

// machine is the machine that is looked at, with all the ways to touch it.
type machine struct {
	hardware.Tree
	options Options
	open    func(d disk, write bool) (device, error)

	mu      sync.Mutex
	console io.Writer
}

func newMachine(o Options, console io.Writer) *machine {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.LinkUp == nil {
		o.LinkUp = linkUp
	}
	return &machine{Tree: hardware.Tree(o.Root), options: o, open: openBlock, console: console}
}

// logf writes a line to the console.
func (m *machine) logf(format string, args ...any) {
	text := fmt.Sprintf("%s inspection: %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = io.WriteString(m.console, text) // a console that is gone is no reason to stop
}

// run runs a program for at most limit. It does not wait for a program that can't be killed because its disk hangs.
func (m *machine) run(ctx context.Context, limit time.Duration, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: no result after %v", argv[0], limit))
	defer cancel()
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := m.options.Tools.Run(ctx, argv...)
		done <- result{out, err}
	}()
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
	}
	const killed = 2 * time.Second
	select {
	case r := <-done:
		return r.out, errors.Join(context.Cause(ctx), r.err)
	case <-time.After(killed):
		return nil, context.Cause(ctx)
	}
}
