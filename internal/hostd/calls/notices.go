package calls

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/clock"
)

// Notices keep what the drivers of a host say until a controller has written it down. They implement substrate.Notices.
type Notices struct {
	hearing sync.Mutex // held by the one controller that hears them
	mu      sync.Mutex
	said    []notice
	more    chan struct{} // holds one token while there may be some
}

// notice is one of them: a call of substrate.Notices.
type notice struct {
	Machine string `json:",omitempty"`
	Inspect string `json:",omitempty"`
	Text    string `json:",omitempty"`
}

// mostSaid bounds what is kept: of what no controller hears, the newest.
const mostSaid = 1000

var _ substrate.Notices = (*Notices)(nil)

// NewNotices are none yet.
func NewNotices() *Notices { return &Notices{more: make(chan struct{}, 1)} }

func (n *Notices) say(what notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said = append(n.said, what)
	n.said = n.said[max(0, len(n.said)-mostSaid):]
	clock.Wake(n.more)
}

// Machine is substrate.Notices's; so is Inspect.
func (n *Notices) Machine(_ context.Context, name, text string) {
	n.say(notice{Machine: name, Text: text})
}

func (n *Notices) Inspect(_ context.Context, name string) error {
	n.say(notice{Inspect: name})
	return nil
}

// next waits for the first one, and keeps it.
func (n *Notices) next(ctx context.Context) (notice, error) {
	for {
		n.mu.Lock()
		if len(n.said) > 0 {
			defer n.mu.Unlock()
			return n.said[0], nil
		}
		n.mu.Unlock()
		select {
		case <-n.more:
		case <-ctx.Done():
			return notice{}, ctx.Err()
		}
	}
}

// heard forgets the first one.
func (n *Notices) heard() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.said) > 0 {
		n.said = n.said[1:]
	}
}

// tell hands them to a controller, each until it says that it has written it down.
func (n *Notices) tell(ctx context.Context, _ none) (then, error) {
	return func(conn net.Conn, early *bufio.Reader) {
		defer conn.Close()
		ctx, over := context.WithCancel(ctx)
		defer over()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		written := make(chan struct{})
		go func() { // one word an answer; its end is that of the controller
			defer over()
			word, from := make([]byte, 1), stream{conn, early}
			for {
				if _, err := io.ReadFull(from, word); err != nil {
					return
				}
				select {
				case written <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
		}()
		n.hearing.Lock()
		defer n.hearing.Unlock()
		tell := json.NewEncoder(conn)
		for {
			what, err := n.next(ctx)
			if err != nil || tell.Encode(what) != nil {
				return
			}
			select {
			case <-written:
				n.heard()
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// hearAgain is how long it is until a host that was not heard is asked again for what it says.
const hearAgain = time.Second

// Hear writes down what the drivers of the host say, until ctx ends.
func (a *Agent) Hear(ctx context.Context, write substrate.Notices, log *slog.Logger) {
	for ctx.Err() == nil {
		if err := a.hear(ctx, write); ctx.Err() == nil {
			log.Debug("the agent of a host is asked again for what it says", "error", err)
		}
		_ = clock.Sleep(ctx, hearAgain)
	}
}

// hear does so until ctx ends or the host goes.
func (a *Agent) hear(ctx context.Context, write substrate.Notices) error {
	conn, err := notices.takeOver(ctx, nodes{Agent: a}, none{})
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	hear := json.NewDecoder(conn)
	for {
		var what notice
		if err := hear.Decode(&what); err != nil {
			return a.unreached(ctx, err)
		}
		switch {
		case what.Machine != "":
			write.Machine(ctx, what.Machine, what.Text)
		case what.Inspect != "":
			if err := write.Inspect(ctx, what.Inspect); err != nil {
				return err // it says it again
			}
		}
		if _, err := conn.Write([]byte{0}); err != nil {
			return a.unreached(ctx, err)
		}
	}
}
