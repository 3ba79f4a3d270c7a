package limit

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// Turns lets as many callers at a time as there are places have something whose time is scarce, such as the one writer of a
// database. Of those who wait the next one is who has had least of it of late. So no caller waits for much longer than for the
// turns that others have begun, however many and long somebody's turns are; and of three places or more, no caller has more than
// half, rounded up. What is done for no caller (who is ""), and so for all, counts a quarter, and may have all places.
type Turns struct {
	Places int

	mu      sync.Mutex
	taken   int
	has     map[string]int // places that each has now
	waiting []*turn        // in the order in which they came
	// had is what each has had, in seconds. Instead of halving all of it every halved, what is added doubles.
	had   map[string]float64
	since time.Time // when a second was added as one
}

// turn is one that is waited for.
type turn struct {
	who   string
	begun chan struct{}
}

// halved is how long it takes until what somebody has had counts half.
const halved = 10 * time.Second

// doubled is how often what is added may have doubled before all counts are scaled back.
const doubled = 40

// Take waits until it is who's turn, or ctx ends, whose error it is then. leave ends the turn; call it once.
func (t *Turns) Take(ctx context.Context, who string) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	if t.taken < t.Places && t.may(who) { // then those who wait may not
		t.taken++
		t.seat(who)
		t.mu.Unlock()
		return t.begin(who), nil
	}
	mine := &turn{who, make(chan struct{})}
	t.waiting = append(t.waiting, mine)
	t.mu.Unlock()
	select {
	case <-mine.begun:
		return t.begin(who), nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, mine); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // it has begun at the same moment
		t.end(who)
	}
	return nil, ctx.Err()
}

func (t *Turns) begin(who string) (leave func()) {
	began := time.Now()
	return func() {
		now := time.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.add(who, now.Sub(began), now)
		t.end(who)
	}
}

// may says whether somebody may have one more place.
func (t *Turns) may(who string) bool {
	return who == "" || t.Places < 3 || t.has[who] < (t.Places+1)/2
}

func (t *Turns) seat(who string) {
	if t.has == nil {
		t.has = map[string]int{}
	}
	t.has[who]++
}

// Waiting is how many wait.
func (t *Turns) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// end hands somebody's place on, or has it free.
func (t *Turns) end(who string) {
	if t.has[who]--; t.has[who] == 0 {
		delete(t.has, who)
	}
	least := -1
	for i, w := range t.waiting {
		if t.may(w.who) && (least < 0 || t.had[w.who] < t.had[t.waiting[least].who]) {
			least = i
		}
	}
	if least < 0 {
		t.taken--
		return
	}
	t.seat(t.waiting[least].who)
	close(t.waiting[least].begun)
	t.waiting = slices.Delete(t.waiting, least, least+1)
}

// add counts what somebody has had until now.
func (t *Turns) add(who string, took time.Duration, now time.Time) {
	times := now.Sub(t.since).Seconds() / halved.Seconds()
	if times > doubled {
		fresh := map[string]float64{}
		for other, had := range t.had {
			if had = math.Ldexp(had, -int(times)); had > 1e-6 {
				fresh[other] = had
			}
		}
		t.had, t.since, times = fresh, now, 0
	}
	counts := took.Seconds()
	if who == "" {
		counts /= 4
	}
	t.had[who] += counts * math.Exp2(times)
}
