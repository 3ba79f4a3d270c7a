// Package files carries files between browsers and clusters: by SFTP (draft-ietf-secsh-filexfer-02) through the SSH gateway of
// the same process, which checks, lists and ends these sessions as any other, in the account of who asks.
//
// What enters: requests of people whom the API has let in, and what a cluster's head answers, which may be anything. What leaves:
// SSH connections to the gateway.
package files

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/door/gateway/client"
	"muster/internal/kit/limit"
)

// Limits keep files from taking what others need.
type Limits struct {
	Each, All int           // connections of one person, and of all people,
	Lists     [2]int        // and directories that are listed at once
	Idle      time.Duration // for which a connection waits for another request
	Entries   int           // of a directory that are listed,
	Listing   int64         // and bytes in which a head may list them
	Patience  time.Duration // for a head to answer
	Grace     time.Duration // for what remains to be done when a request has ended before its time
}

// UsualLimits are those of files unless others are set.
func UsualLimits() Limits {
	return Limits{Each: 8, All: 128, Lists: [2]int{2, 8}, Idle: time.Minute, Entries: 10_000, Listing: 4 << 20,
		Patience: 30 * time.Second, Grace: 5 * time.Second}
}

// Files are those of all clusters, by one controller.
type Files struct {
	client *client.Client
	limits Limits
	share  limit.Share
	lists  limit.Share // of listings: each takes memory

	mu   sync.Mutex
	ways map[place]*way
}

// New makes them. Gateway is by whom they get there.
func New(gateway *client.Client, limits Limits, meter limit.Meter) *Files {
	share := func(kind string, each, total int, hint string) limit.Share {
		return limit.Share{Kind: kind, Each: each, Total: total, Door: "api", Meter: meter, Hint: hint}
	}
	return &Files{client: gateway, limits: limits, ways: map[place]*way{},
		share: share("connections for files", limits.Each, limits.All, "wait until a transfer has ended"),
		lists: share("lists of files", limits.Lists[0], limits.Lists[1], "ask for one after the other")}
}

// place is one that somebody has a way to. No other browser uses it.
type place struct{ person, owner, cluster string }

// way is a connection that the requests of one browser for one cluster share.
type way struct {
	place place
	end   context.CancelFunc
	leave func()        // gives its part of the share back
	begun chan struct{} // closed once it is there, or is known not to be
	conn  *ssh.Client   // once it is there
	err   error         // why it is not

	// The lock of Files guards these.
	used  int // requests
	idle  *time.Timer
	since time.Time // when the last of them ended
}

// Open begins a session with the files of a cluster: ref is its PROJECT/NAME. It ends with Close, or soon after ctx. An error is
// *limit.Over, *Refusal, client.ErrUnreachable, client.ErrCut, ErrSilent, or ctx's.
func (f *Files) Open(ctx context.Context, who client.Who, cluster, ref string) (*Session, error) {
	for again := false; ; again = true {
		w, joined, err := f.join(who, place{who.Person, who.Owner, cluster}, ref)
		if err != nil {
			return nil, err
		}
		s, err := f.session(ctx, w)
		if err == nil {
			return s, nil
		}
		f.part(w, ctx.Err() == nil)
		if again || !joined || !errors.Is(err, client.ErrCut) { // else it may have ended long ago
			return nil, err
		}
	}
}

// join is a way to a place: one that is there, or a new one.
func (f *Files) join(who client.Who, at place, ref string) (w *way, joined bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w = f.ways[at]; w != nil {
		w.used++
		w.idle.Stop()
		return w, true, nil
	}
	leave, over := f.share.Enter(who.Person, false)
	if over != nil && f.makeRoom(who.Person, over.Own) {
		leave, over = f.share.Enter(who.Person, false)
	}
	if over != nil {
		return nil, false, over
	}
	lasts, end := context.WithCancel(context.Background()) // longer than the request
	w = &way{place: at, end: end, leave: leave, begun: make(chan struct{}), used: 1}
	w.idle = time.AfterFunc(f.limits.Idle, func() { f.rest(w) })
	w.idle.Stop()
	f.ways[at] = w
	go func() {
		w.conn, w.err = f.client.Connect(lasts, who, ref)
		close(w.begun)
		if w.err == nil {
			_ = w.conn.Wait() // how it ended is no news
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forget(w)
		leave()
		end()
	}()
	return w, false, nil
}

// makeRoom ends the way that was unused for longest, of a person or of all; false if each is used. The caller holds the lock.
func (f *Files) makeRoom(person string, own bool) bool {
	var oldest *way
	for at, w := range f.ways {
		if w.used == 0 && (!own || at.person == person) && (oldest == nil || w.since.Before(oldest.since)) {
			oldest = w
		}
	}
	if oldest == nil {
		return false
	}
	f.forget(oldest)
	f.leave(oldest)
	return true
}

// forget has the next request begin a new way. The caller holds the lock.
func (f *Files) forget(w *way) {
	if f.ways[w.place] == w {
		delete(f.ways, w.place)
	}
}

// leave ends a way that is not used, and will not be. The caller holds the lock.
func (f *Files) leave(w *way) {
	w.leave()
	w.end()
}

// part ends one use of a way. One that is broken is not used again.
func (f *Files) part(w *way, broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.used--
	if broken {
		f.forget(w)
	}
	switch {
	case w.used > 0:
	case f.ways[w.place] != w:
		f.leave(w)
	default:
		w.since = time.Now()
		w.idle.Reset(f.limits.Idle)
	}
}

// rest ends a way that is not used.
func (f *Files) rest(w *way) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.used == 0 {
		f.forget(w)
		f.leave(w)
	}
}
