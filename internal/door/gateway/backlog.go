package gateway

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Backlog is how many directions of channels may wait for somebody to read what they carry. Each holds up to 2 MiB meanwhile, the
// window that x/crypto/ssh opens to every channel, and as packets of a byte each 48 times as much memory. Requests that wait for
// their answer, while more come, hold as much.
type Backlog struct {
	Person  int // of one person
	Crowded int // of one person, while there are more than All
	All     int
}

// waitsLong is how long a direction waits until it counts. What is slow, but goes on, does not.
const waitsLong = 2 * time.Second

// backlog knows all directions that are carried.
type backlog struct {
	mu  sync.Mutex
	all map[*direction]bool
}

// direction is one of a channel of a visit.
type direction struct {
	v     *visit
	since atomic.Int64 // when it began to wait for its reader, in Unix nanoseconds; 0: it does not
}

// enter makes a direction of a channel known, until leave is called.
func (b *backlog) enter(v *visit) (d *direction, leave func()) {
	d = &direction{v: v}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[*direction]bool{}
	}
	b.all[d] = true
	return d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.all, d)
	}
}

// while is for what does not go on before it has returned: what else comes from that side waits.
func (b *backlog) while(v *visit, work func()) {
	d, leave := b.enter(v)
	defer leave()
	d.waits()
	work()
}

func (d *direction) waits()  { d.since.Store(time.Now().UnixNano()) }
func (d *direction) goesOn() { d.since.Store(0) }

// over lists the visits to end, so that no person has more waiting than is allowed: of each person who has, those with the most.
func (b *backlog) over(limits Backlog, now time.Time) (ends []*visit) {
	waiting, all := map[string]map[*visit]int{}, 0
	b.mu.Lock()
	for d := range b.all {
		if since := d.since.Load(); since == 0 || now.UnixNano()-since < int64(waitsLong) {
			continue
		}
		all++
		person := d.v.who.caller.Name
		if waiting[person] == nil {
			waiting[person] = map[*visit]int{}
		}
		waiting[person][d.v]++
	}
	b.mu.Unlock()
	most := limits.Person
	if all > limits.All {
		most = limits.Crowded
	}
	for _, visits := range waiting {
		worst, sum := []*visit{}, 0
		for v, n := range visits {
			worst, sum = append(worst, v), sum+n
		}
		slices.SortFunc(worst, func(a, b *visit) int { return cmp.Compare(visits[b], visits[a]) })
		for _, v := range worst {
			if sum <= most {
				break
			}
			sum -= visits[v]
			ends = append(ends, v)
		}
	}
	return ends
}

// clear ends visits that hold too much that is not read.
func (g *Gateway) clear(ctx context.Context) {
	for _, v := range g.backlog.over(g.Limits.Backlog, time.Now()) {
		const reason = "too many of your channels wait for somebody to read what they carry"
		g.Log.InfoContext(ctx, "a session is ended", "person", v.who.caller.Name, "remote", v.server.RemoteAddr().String(), "why",
			reason)
		v.end(reason)
	}
}
