// Package terminal keeps the terminals that browsers have on clusters. Each is an SSH session through the gateway of the same
// process, which checks, lists, records and ends it as any other. A browser that was away for a while finds it again.
//
// What enters: WebSockets of people whom the API has let in. What leaves: SSH connections to the gateway.
package terminal

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"muster/internal/door/gateway/client"
	"muster/internal/kit/limit"
)

// Limits keep terminals from taking what others need.
type Limits struct {
	Each, All int           // terminals of one person, and of all people
	Kept      int           // bytes of what a terminal has shown last, for a browser that comes again
	Ahead     int           // bytes that a terminal may show before its browser has drawn them
	Alone     time.Duration // for which a terminal goes on that no browser shows
	Ping      time.Duration // between two looks at whether the browser is there. It has as long to take a message, or to catch up
}

// UsualLimits are those of terminals unless others are set.
func UsualLimits() Limits {
	return Limits{Each: 16, All: 256, Kept: 256 << 10, Ahead: 128 << 10, Alone: 10 * time.Minute, Ping: 20 * time.Second}
}

// Terminals are those of one controller.
type Terminals struct {
	client *client.Client
	limits Limits
	share  limit.Share

	mu  sync.Mutex
	all map[string]*Terminal // by ID
}

// New makes them. Gateway is by whom they get there.
func New(gateway *client.Client, limits Limits, meter limit.Meter) *Terminals {
	return &Terminals{client: gateway, limits: limits, all: map[string]*Terminal{},
		share: limit.Share{Kind: "terminals", Each: limits.Each, Total: limits.All, Door: "api", Meter: meter,
			Hint: "close some"}}
}

// Place is where a terminal goes.
type Place struct {
	Cluster string // ID
	Ref     string // PROJECT/NAME
	Node    string // "": the head
}

// Open begins a terminal, which lasts until ctx ends at most; then over is called. Why the place cannot be entered, the terminal
// shows. Who has as many as one may have loses the one that no browser has shown for longest; a *limit.Over says that there
// is none, or that all people have too many.
func (t *Terminals) Open(ctx context.Context, over func(), who client.Who, at Place, size Size) (*Terminal, error) {
	leave, full := t.share.Enter(who.Person, false)
	if full != nil && full.Own && t.endLeft(who.Person) {
		leave, full = t.share.Enter(who.Person, false)
	}
	if full != nil {
		return nil, full
	}
	ctx, end := context.WithCancelCause(ctx)
	one := &Terminal{ID: rand.Text(), who: who, at: at, limits: t.limits, size: size.sane(), since: time.Now(), end: end,
		ends: ctx.Done(), done: make(chan struct{}), changed: make(chan struct{})}
	one.alone = time.AfterFunc(t.limits.Alone, one.endAlone)
	t.mu.Lock()
	t.all[one.ID] = one
	t.mu.Unlock()
	go func() {
		err := one.carry(ctx, t.client)
		t.mu.Lock()
		delete(t.all, one.ID)
		t.mu.Unlock()
		leave()
		one.finish(words(ctx, err))
		end(nil)
		over()
	}()
	return one, nil
}

// endLeft ends the terminal of a person that no browser has shown for longest, and waits for its end; false if all are shown.
func (t *Terminals) endLeft(person string) bool {
	t.mu.Lock()
	var left *Terminal
	var since time.Time
	for _, one := range t.all {
		if at, alone := one.left(); alone && one.who.Person == person && (left == nil || at.Before(since)) {
			left, since = one, at
		}
	}
	if left != nil {
		delete(t.all, left.ID) // no other call takes it for its own
	}
	t.mu.Unlock()
	if left == nil {
		return false
	}
	left.end(errLeft)
	<-left.done
	return true
}

// Find is a terminal that somebody has opened at a place, if it goes on.
func (t *Terminals) Find(id, owner string, at Place) (*Terminal, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, is := t.all[id]
	return one, is && one.who.Owner == owner && one.at == at
}
