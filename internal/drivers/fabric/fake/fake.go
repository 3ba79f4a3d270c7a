// Package fake is an InfiniBand fabric in memory: it keeps the same promises as a real driver, passes the same contract
// test, and fails on demand.
//
// What enters: intents as for any driver, and faults from the test or the simulator. What leaves: the ports' tables.
package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"muster/internal/fabric"
	"muster/internal/kit/clock"
)

// Capacity is how many entries a port's table has, the default one included, as in ConnectX adapters.
const Capacity = 128

// ErrOpen is returned by Apply while FailOpen is set: the manager did not read its file, and gave all ports to each other.
var ErrOpen = errors.New("the subnet manager did not take its partitions and fell back to one for all")

// Fabric implements fabric.Driver in memory. Its methods may be called at the same time.
type Fabric struct {
	manager fabric.GUID

	mu      sync.Mutex
	changes chan struct{} // holds one token while no Apply runs: a lock that ctx can end the wait for
	ports   map[fabric.GUID]*port
	intent  fabric.Intent
	refuse  error
	open    bool
	slow    time.Duration
	applied int
}

// port is one on the fabric.
type port struct {
	entries  []fabric.Entry // from its manager
	own      []fabric.Entry // that somebody on its host wrote
	silent   bool
	capacity int
}

var _ fabric.Driver = (*Fabric)(nil)

// New makes a fabric that was never told anything: its manager and all ports are in the default partition alone.
func New(manager fabric.GUID, ports ...fabric.GUID) *Fabric {
	f := &Fabric{manager: manager, changes: make(chan struct{}, 1), ports: map[fabric.GUID]*port{},
		intent: fabric.Intent{Managers: []fabric.GUID{manager}}}
	f.changes <- struct{}{}
	for _, g := range append([]fabric.GUID{manager}, ports...) {
		f.ports[g] = &port{capacity: Capacity}
	}
	f.spread()
	return f
}

// Add brings ports into the fabric, as a new rack does. Those that are there already stay as they are.
func (f *Fabric) Add(ports ...fabric.GUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range ports {
		if f.ports[g] == nil {
			f.ports[g] = &port{capacity: Capacity}
		}
	}
	f.spread()
}

// Narrow gives a port a smaller table.
func (f *Fabric) Narrow(g fabric.GUID, capacity int) {
	f.at(g, func(p *port) { p.capacity = capacity })
}

// Silence takes a port's link down, or up again. While it is down the port keeps what it holds and does not answer; once it is up
// its manager tells it what it missed.
func (f *Fabric) Silence(g fabric.GUID, silent bool) { f.at(g, func(p *port) { p.silent = silent }) }

// Rogue has a port hold entries that somebody on its host wrote there, whatever its manager says. None: it obeys again.
func (f *Fabric) Rogue(g fabric.GUID, entries ...fabric.Entry) {
	f.at(g, func(p *port) { p.own = slices.Clone(entries) })
}

func (f *Fabric) at(g fabric.GUID, change func(*port)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.ports[g]
	if p == nil {
		panic(fmt.Sprintf("port %s is not on this fabric", g))
	}
	change(p)
	f.spread()
}

// Refuse has every Apply refused, with this reason; nil ends it.
func (f *Fabric) Refuse(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = reason
}

// FailOpen has the manager give every port a full default entry and no other, as OpenSM does with a file that it cannot
// read. While it is set each Apply fails with ErrOpen; the first one after it heals all.
func (f *Fabric) FailOpen(open bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open = open; open {
		f.spread()
	}
}

// Slow has every call take this long, or until its context ends.
func (f *Fabric) Slow(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = d
}

// Applied counts the intents that the manager took, and says which was the last one.
func (f *Fabric) Applied() (int, fabric.Intent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied, f.intent
}

// Apply makes the intent the fabric's.
func (f *Fabric) Apply(ctx context.Context, i fabric.Intent) error {
	select {
	case <-f.changes:
		defer func() { f.changes <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := f.wait(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.admit(i); err != nil {
		return err
	}
	if f.open {
		f.spread()
		return ErrOpen
	}
	f.intent, f.applied = i, f.applied+1
	f.spread()
	if different := fabric.Compare(i, f.read()); different != nil {
		return &fabric.Resisted{Ports: different}
	}
	return nil
}

// admit says why an intent is not carried out.
func (f *Fabric) admit(i fabric.Intent) error {
	if f.refuse != nil {
		return fmt.Errorf("%w: %w", fabric.ErrRefused, f.refuse)
	}
	if err := i.Check(); err != nil {
		return err
	}
	if !slices.Contains(i.Managers, f.manager) {
		return fmt.Errorf("%w: the subnet manager's own port %s is not among the managers, and would not be reached any more",
			fabric.ErrRefused, f.manager)
	}
	for g, entries := range i.Tables() {
		if p := f.ports[g]; p != nil && len(entries) > p.capacity {
			return fmt.Errorf("%w: port %s would be in %d partitions, and its table has room for %d; fewer clusters can use "+
				"it at once", fabric.ErrRefused, g, len(entries), p.capacity)
		}
	}
	return nil
}

// Observe reads every port's table.
func (f *Fabric) Observe(ctx context.Context) (fabric.Tables, error) {
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(), nil
}

// read is called with the lock held.
func (f *Fabric) read() fabric.Tables {
	all := fabric.Tables{}
	for g, p := range f.ports {
		if !p.silent {
			all[g] = fabric.Port{Entries: slices.Concat(p.entries, p.own), Capacity: p.capacity}
		}
	}
	return all
}

// spread has every port that hears its manager hold what the manager says. It is called with the lock held.
func (f *Fabric) spread() {
	told := f.intent.Tables()
	for g, p := range f.ports {
		switch {
		case p.silent:
		case f.open:
			p.entries = []fabric.Entry{fabric.DefaultKey.In(fabric.Full)}
		case told[g] != nil:
			p.entries = told[g]
		default:
			p.entries = []fabric.Entry{fabric.DefaultKey.In(fabric.Limited)}
		}
	}
}

// wait takes as long as a slow fabric does.
func (f *Fabric) wait(ctx context.Context) error {
	f.mu.Lock()
	d := f.slow
	f.mu.Unlock()
	if d == 0 {
		return ctx.Err()
	}
	return clock.Sleep(ctx, d)
}
