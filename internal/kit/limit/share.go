package limit

import (
	"fmt"
	"sync"
	"time"
)

// Share is how many of one kind may be open at once: of one caller, and of all.
type Share struct {
	Kind        string // for texts and metrics, such as "event streams"
	Each, Total int
	Hint        string // what would work for a caller who has too many
	Door        string // for the meter
	Meter       Meter  // nil: nothing is counted

	mu  sync.Mutex
	of  map[string]int
	all int
}

// Over says which limit is reached.
type Over struct {
	Own   bool // the caller's own limit; else all callers' together
	Text  string
	Hint  string
	After time.Duration // when to try again
}

func (o *Over) Error() string { return o.Text + " (" + o.Hint + ")" }

// again is when to try again what others, or one's own other requests, have to end for.
const again = 2 * time.Second

// Enter takes one for who, or says why not. leave gives it back; it may be called again. Who is the host's own
// administrator has reserved ones: no limit.
func (s *Share) Enter(who string, reserved bool) (leave func(), over *Over) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !reserved {
		over = s.full(who)
	}
	if over != nil {
		if s.Meter != nil {
			limit := "all"
			if over.Own {
				limit = "person"
			}
			s.Meter.Refused(s.Door, limit)
		}
		return nil, over
	}
	if reserved {
		return func() {}, nil
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.of[who]++
	s.all++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[who]--; s.of[who] == 0 {
			delete(s.of, who)
		}
	}), nil
}

func (s *Share) full(who string) *Over {
	switch {
	case s.of[who] >= s.Each:
		return &Over{Own: true, After: again, Hint: s.Hint,
			Text: fmt.Sprintf("%s has %d %s open, which is all that one may have at once", who, s.of[who], s.Kind)}
	case s.all >= s.Total:
		return &Over{After: again, Hint: "try again in a moment",
			Text: fmt.Sprintf("all callers together have %d %s open, which is all that this controller has", s.all, s.Kind)}
	}
	return nil
}
