package switches

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Fake is a switch in memory: it keeps ports apart as a real one does, and hands frames on. Its fields may be set before it is
// used.
type Fake struct {
	// Fail is asked before each call; an error of it is the call's, and nothing has happened. Nil: none.
	Fail func(call string) error
	// Lose is asked after each change; an error is the call's, and it has happened all the same. Nil: none.
	Lose func(call string) error

	mu     sync.Mutex
	ports  map[string]Segment
	opened map[Segment]bool
}

// NewFake is a switch with these ports, all of them in no segment.
func NewFake(ports ...string) *Fake {
	f := &Fake{ports: map[string]Segment{}, opened: map[Segment]bool{}}
	for _, p := range ports {
		f.ports[p] = Nowhere
	}
	return f
}

func (f *Fake) change(call string, do func() error) error {
	if f.Fail != nil {
		if err := f.Fail(call); err != nil {
			return err
		}
	}
	f.mu.Lock()
	err := do()
	f.mu.Unlock()
	if err == nil && f.Lose != nil {
		err = f.Lose(call)
	}
	return err
}

// Put is Switch's.
func (f *Fake) Put(_ context.Context, p Port, s Segment) error {
	return f.change("put", func() error {
		if _, there := f.ports[p.Name]; !there {
			return fmt.Errorf("put port %s into %s: %w", p.Name, s, ErrNoPort)
		}
		f.ports[p.Name] = s
		if s != Common {
			f.opened[s] = true
		}
		return nil
	})
}

// Ports is Switch's.
func (f *Fake) Ports(context.Context) (map[string]Segment, error) {
	all := map[string]Segment{}
	err := f.change("ports", func() error {
		maps.Copy(all, f.ports)
		return nil
	})
	return all, err
}

// Open is Switch's.
func (f *Fake) Open(_ context.Context, s Segment) (string, error) {
	return fmt.Sprintf("fake-%d", int(s)), f.change("open", func() error {
		if s != Common {
			f.opened[s] = true
		}
		return nil
	})
}

// Close is Switch's.
func (f *Fake) Close(_ context.Context, s Segment) error {
	return f.change("close", func() error {
		for p, in := range f.ports {
			if in == s && s != Common {
				return fmt.Errorf("close %s: %w: %s", s, ErrInUse, p)
			}
		}
		delete(f.opened, s)
		return nil
	})
}

// Opened is Switch's.
func (f *Fake) Opened(context.Context) ([]Segment, error) {
	var all []Segment
	err := f.change("opened", func() error {
		for s := range f.opened {
			all = append(all, s)
		}
		slices.Sort(all)
		return nil
	})
	return all, err
}

// Hear lists the ports that hear a frame which is sent to everybody from one of them.
func (f *Fake) Hear(from string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for p, s := range f.ports {
		if p != from && s == f.ports[from] && s != Common && s != Nowhere {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}
