package limit

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// Pace is how often each caller may do what leaves a trace behind, such as a row in the database: Burst times at once, and
// then once each Every. It is the generic cell rate algorithm of ITU-T I.371.
type Pace struct {
	Kind  string // for texts, such as "requests that change something"
	Burst int
	Every time.Duration

	mu   sync.Mutex
	rest map[string]time.Time // when each has all of Burst again
}

// More counts one more, or says why not: then it does not count.
func (p *Pace) More(who string, now time.Time) *Over {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rest) >= mostAddresses {
		maps.DeleteFunc(p.rest, func(_ string, rest time.Time) bool { return !rest.After(now) })
	}
	if p.rest == nil || len(p.rest) >= mostAddresses {
		p.rest = map[string]time.Time{}
	}
	rest := p.rest[who]
	if rest.Before(now) {
		rest = now
	}
	rest = rest.Add(p.Every)
	if wait := rest.Sub(now) - time.Duration(p.Burst)*p.Every; wait > 0 {
		return &Over{Own: true, After: max(wait, time.Second), Hint: "one more each " + p.Every.String() + " is possible",
			Text: fmt.Sprintf("%s has made %d %s in a short time, which is all that one may", who, p.Burst, p.Kind)}
	}
	p.rest[who] = rest
	return nil
}
