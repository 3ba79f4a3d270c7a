// Package fake is a switch in memory, with faults on demand.
package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	switches "muster/internal/drivers/switch"
)

// Switch is a switch in memory: it keeps ports apart as a real one does, and hands frames on. Its fields may be set before it is
// used.
type Switch struct {
	// Fail is asked before each call; an error of it is the call's, and nothing has happened. Nil: none.
	Fail func(call string) error
	// Lose is asked after each change; an error is the call's, and it has happened all the same. Nil: none.
	Lose func(call string) error

	mu     sync.Mutex
	ports  map[string]switches.Segment
	opened map[switches.Segment]bool
}

// New is a switch with these ports, all of them in no segment.
func New(ports ...string) *Switch {
	f := &Switch{ports: map[string]switches.Segment{}, opened: map[switches.Segment]bool{}}
	for _, p := range ports {
		f.ports[p] = switches.Nowhere
	}
	return f
}

func (f *Switch) change(call string, do func() error) error {
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
func (f *Switch) Put(_ context.Context, p switches.Port, s switches.Segment) error {
	return f.change("put", func() error {
		if _, there := f.ports[p.Name]; !there {
			return fmt.Errorf("put port %s into %s: %w", p.Name, s, switches.ErrNoPort)
		}
		if err := s.Check(); err != nil {
			return err
		}
		f.ports[p.Name] = s
		if s != switches.Common {
			f.opened[s] = true
		}
		return nil
	})
}

// Ports is Switch's.
func (f *Switch) Ports(context.Context) (map[string]switches.Segment, error) {
	all := map[string]switches.Segment{}
	err := f.change("ports", func() error {
		maps.Copy(all, f.ports)
		return nil
	})
	return all, err
}

// Isolate is Switch's. Ports that are in no segment are open.
func (f *Switch) Isolate(_ context.Context, named []string) (isolated []string, err error) {
	err = f.change("isolate", func() error {
		for p, in := range f.ports {
			if in == switches.Nowhere && !slices.Contains(named, p) {
				f.ports[p] = switches.Common
				isolated = append(isolated, p)
			}
		}
		slices.Sort(isolated)
		return nil
	})
	return isolated, err
}

// Open is Switch's.
func (f *Switch) Open(_ context.Context, s switches.Segment) (string, error) {
	return fmt.Sprintf("fake-%d", int(s)), f.change("open", func() error {
		if err := s.Check(); err != nil {
			return err
		}
		if s != switches.Common {
			f.opened[s] = true
		}
		return nil
	})
}

// Close is Switch's.
func (f *Switch) Close(_ context.Context, s switches.Segment) error {
	return f.change("close", func() error {
		for p, in := range f.ports {
			if in == s && s != switches.Common {
				return fmt.Errorf("close %s: %w: %s", s, switches.ErrInUse, p)
			}
		}
		delete(f.opened, s)
		return nil
	})
}

// Opened is Switch's.
func (f *Switch) Opened(context.Context) ([]switches.Segment, error) {
	var all []switches.Segment
	err := f.change("opened", func() error {
		all = slices.Sorted(maps.Keys(f.opened))
		return nil
	})
	return all, err
}

// Hear lists the ports that hear a frame which is sent to everybody from one of them.
func (f *Switch) Hear(from string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for p, s := range f.ports {
		if p != from && s == f.ports[from] && s != switches.Common && s != switches.Nowhere {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}
