package limit

import (
	"cmp"
	"sync"
	"time"
)

// Tries counts attempts of callers who are not authenticated, by address. There is no number that they use up together:
// beyond All within a window, those go on who have tried little, so that many addresses are needed to keep one out.
type Tries struct {
	Window   time.Duration
	Each     int // within a window, of one address
	Here     int // of this host, where a proxy may speak for many
	All      int // of all together; beyond it each has Strained, and a /48 of IPv6 is one address
	Strained int

	mu    sync.Mutex
	since time.Time
	all   int
	of    map[string]int
}

// mostAddresses bounds what is remembered. Who has so many addresses cannot be counted by them.
const mostAddresses = 1 << 16

// More counts one more, and says how long to wait if it is one too many.
func (t *Tries) More(remote string, now time.Time) (wait time.Duration) {
	who := AddressOf(remote)
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= t.Window || now.Before(t.since) || len(t.of) >= mostAddresses {
		t.since, t.all, t.of = now, 0, map[string]int{}
	}
	most, key := t.Each, who.Key
	switch {
	case who.Here:
		most, key = t.Here, ""
	case t.all >= t.All:
		most, key = t.Strained, who.Wide
	}
	if t.of[key] >= most {
		return t.Window - now.Sub(t.since)
	}
	t.all++
	t.of[who.Key]++
	if who.Wide != who.Key {
		t.of[who.Wide]++
	}
	return 0
}

// Lines bounds how much of a log callers who are not authenticated can cause.
type Lines struct {
	Window    time.Duration
	Each, All int // lines within a window, of one address and of all

	mu      sync.Mutex
	since   time.Time
	all     int
	of      map[string]int
	omitted int
}

// LinesOfUnknown are as many as callers may cause who are not known yet.
func LinesOfUnknown() Lines { return Lines{Window: time.Minute, Each: 10, All: 60} }

// Say says whether a line about somebody, by address or by another name, is to be written now, and how many were left out since
// the last one that was.
func (l *Lines) Say(remote string, now time.Time) (yes bool, omitted int) {
	key := cmp.Or(AddressOf(remote).Key, remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= l.Window || now.Before(l.since) {
		l.since, l.all, l.of = now, 0, map[string]int{}
	}
	if l.all >= l.All || l.of[key] >= l.Each {
		l.omitted++
		return false, 0
	}
	l.all++
	l.of[key]++
	omitted, l.omitted = l.omitted, 0
	return true, omitted
}
