package inspection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/inventory/hardware"
)

const (
	reportEvery = 2 * time.Second
	tellAtMost  = 4 // things that go on at once; the rest are counted
)

// progress is what goes on now, in words, by the thing that it goes on with.
type progress struct {
	mu    sync.Mutex
	doing map[string]string
}

func newProgress() *progress { return &progress{doing: map[string]string{}} }

// say replaces what goes on with a thing; "" ends it.
func (p *progress) say(thing, doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if doing == "" {
		delete(p.doing, thing)
	} else {
		p.doing[thing] = doing
	}
}

func (p *progress) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var things, words []string
	for thing := range p.doing {
		things = append(things, thing)
	}
	slices.SortFunc(things, hardware.ByNumber)
	for i, thing := range things {
		if i == tellAtMost {
			words = append(words, fmt.Sprintf("and %d more", len(things)-i))
			break
		}
		words = append(words, p.doing[thing])
	}
	return strings.Join(words, "; ")
}

// report delivers the text every 2 s until ctx ends, news or not: it shows also that the machine lives. A delivery that
// fails is made up for by the next.
func (p *progress) report(ctx context.Context, deliver func(doing string) error) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		if text := p.text(); text != "" {
			_ = deliver(text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
