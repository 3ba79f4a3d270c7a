// Package fake is a substrate in memory: it keeps the same promises as a real one, passes the same contract test, runs
// thousands of nodes in no time, and fails on demand.
//
// What enters: calls as to any driver, and faults from the test or the simulator. What leaves: observations, counts of
// calls, and violations: what no real hardware would forgive.
//
// One Substrate stands for one world. Several controllers that share it are replicas; give each test its own.
package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/clock"
)

// ErrInjected is the error of a fault that was given none of its own.
var ErrInjected = errors.New("injected fault")

// Options shape a Substrate. The zero value starts nodes at once and lets any number live on a machine.
type Options struct {
	// Delay is how long a start takes. Ensure blocks for that long, as a real one does. nil: no time.
	Delay func(substrate.Node) time.Duration
	// Started is called after each start, outside of all locks: there a test or the simulator plays the agent. Ensure
	// returns when it has. nil: the agent is not played.
	Started func(context.Context, substrate.Node)
	// Exclusive makes it a violation that two nodes run on one machine, as on metal.
	Exclusive bool
	// Connect answers Dial. nil: every connection is refused.
	Connect func(ctx context.Context, cluster string, to netip.AddrPort) (net.Conn, error)
}

// Calls counts the calls of each method, failed ones too.
type Calls struct{ Ensure, Observe, Remove, List, EnsureShared, RemoveShared, ListShared, Dial int }

// Substrate implements substrate.Substrate and substrate.Shared in memory. Its methods may be called at the same time.
type Substrate struct {
	options Options

	mu         sync.Mutex
	nodes      map[name]*node
	shared     map[string]bool
	kept       map[string]string // cluster → what stands for its /home and state
	snapshots  map[string]string
	room       int                // for copies, in bytes; below 0: any
	faults     map[string][]fault // by node ID, the next one first
	calls      Calls
	violations []string
}

var (
	_ substrate.Substrate = (*Substrate)(nil)
	_ substrate.Shared    = (*Substrate)(nil)
	_ substrate.Snapshots = (*Substrate)(nil)
)

// name is a node's, of whatever boot.
type name struct{ cluster, node string }

func nameOf(r substrate.Ref) name { return name{r.Cluster, r.Node} }

// node is remembered until a Remove with Boot 0.
type node struct {
	busy    chan struct{} // holds one token while no call changes the node: a lock that ctx can end the wait for
	highest int64
	present bool
	running bool
	asleep  bool
	detail  string
	of      substrate.Node // the boot that is present
}

// New makes an empty world.
func New(options Options) *Substrate {
	return &Substrate{options: options, nodes: map[name]*node{}, shared: map[string]bool{}, kept: map[string]string{},
		snapshots: map[string]string{}, room: -1, faults: map[string][]fault{}}
}

// Ensure makes the node run this boot.
func (s *Substrate) Ensure(ctx context.Context, n substrate.Node) error {
	s.count(func(c *Calls) { c.Ensure++ })
	if n.Boot < 1 {
		return fmt.Errorf("boot %d of node %s: boots count from 1", n.Boot, n.Node)
	}
	held, unlock, err := s.lock(ctx, nameOf(n.Ref))
	if err != nil {
		return err
	}
	started, err := s.ensure(ctx, held, n)
	unlock()
	if err != nil {
		return fmt.Errorf("boot %d of node %s: %w", n.Boot, n.Node, err)
	}
	if started && s.options.Started != nil {
		s.options.Started(ctx, n)
	}
	return nil
}

// ensure says whether it started the node or found it running.
func (s *Substrate) ensure(ctx context.Context, held *node, n substrate.Node) (started bool, err error) {
	s.mu.Lock()
	switch {
	case n.Boot < held.highest:
		err = substrate.ErrStale
	case held.running && held.of.Boot == n.Boot:
	case !s.shared[n.Cluster]:
		err = fmt.Errorf("the shared parts of cluster %s are not there", n.Cluster)
	default:
		started = true
		held.highest = n.Boot
		held.present, held.running, held.asleep, held.of, held.detail = true, false, false, n, "its start was not finished"
	}
	fault := s.nextFault(n.Node, started)
	s.mu.Unlock()
	if err != nil || !started {
		return false, err
	}
	if err := fault.strike(ctx); err != nil {
		return false, err
	}
	if err := s.wait(ctx, n); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check(n)
	held.running, held.detail = true, ""
	return true, nil
}

func (s *Substrate) wait(ctx context.Context, n substrate.Node) error {
	if s.options.Delay == nil {
		return ctx.Err()
	}
	return clock.Sleep(ctx, s.options.Delay(n))
}

// check records what must never be when n starts. The caller holds mu.
func (s *Substrate) check(n substrate.Node) {
	for _, other := range s.nodes {
		switch {
		case !other.running:
		case nameOf(other.of.Ref) == nameOf(n.Ref):
			s.violations = append(s.violations, fmt.Sprintf("node %s runs boots %d and %d at the same time", n.Node,
				other.of.Boot, n.Boot))
		case s.options.Exclusive && other.of.Machine == n.Machine:
			s.violations = append(s.violations, fmt.Sprintf("machine %s runs nodes %s and %s at the same time", n.Machine,
				other.of.Node, n.Node))
		case other.of.Cluster == n.Cluster && other.of.Address == n.Address:
			s.violations = append(s.violations, fmt.Sprintf("nodes %s and %s of cluster %s have one address, %s", other.of.Node,
				n.Node, n.Cluster, n.Address))
		}
	}
}

// Observe looks; it never waits for a change that is under way.
func (s *Substrate) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	s.count(func(c *Calls) { c.Observe++ })
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.nodes[nameOf(r)]
	if !ok || !held.present {
		return substrate.Observation{}, ctx.Err()
	}
	seen := substrate.Observation{Present: true, Running: held.running, Boot: held.of.Boot, Detail: held.detail,
		Allocation: held.of.Allocation}
	if held.running {
		seen.Limits = limits(held.of)
	}
	return seen, ctx.Err()
}

func limits(n substrate.Node) substrate.Limits {
	limits := substrate.Limits{CPU: "unlimited", Memory: "unlimited"}
	if n.CPUs > 0 {
		limits.CPU = fmt.Sprintf("%d cpus", n.CPUs)
	}
	if n.MemoryMiB > 0 {
		limits.Memory = fmt.Sprintf("%d MiB", n.MemoryMiB)
	}
	return limits
}

// Remove ends the node.
func (s *Substrate) Remove(ctx context.Context, r substrate.Ref) error {
	s.count(func(c *Calls) { c.Remove++ })
	held, unlock, err := s.lock(ctx, nameOf(r))
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Boot == 0 || held.of.Boot <= r.Boot {
		held.present, held.running, held.asleep, held.detail, held.of = false, false, false, "", substrate.Node{}
	}
	if r.Boot == 0 {
		held.highest = 0
	}
	return nil
}

// List names every node that is present, in the order of their names.
func (s *Substrate) List(ctx context.Context) ([]substrate.Ref, error) {
	s.count(func(c *Calls) { c.List++ })
	s.mu.Lock()
	defer s.mu.Unlock()
	var refs []substrate.Ref
	for _, held := range s.nodes {
		if held.present {
			refs = append(refs, held.of.Ref)
		}
	}
	slices.SortFunc(refs, func(a, b substrate.Ref) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node))
	})
	return refs, ctx.Err()
}

// EnsureShared makes the cluster's shared parts.
func (s *Substrate) EnsureShared(ctx context.Context, cluster string, n substrate.Network) error {
	s.count(func(c *Calls) { c.EnsureShared++ })
	if n.Segment < 1 || n.Segment > substrate.MaxSegment {
		return fmt.Errorf("network of cluster %s: segment %d is not between 1 and %d", cluster, n.Segment, substrate.MaxSegment)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared[cluster] = true
	return ctx.Err()
}

// GrowHome does nothing: what is kept here takes no room.
func (s *Substrate) GrowHome(ctx context.Context, _ string, _ int64) error { return ctx.Err() }

// RemoveShared takes them away; it refuses while a node of the cluster is present.
func (s *Substrate) RemoveShared(ctx context.Context, cluster string) error {
	s.count(func(c *Calls) { c.RemoveShared++ })
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, held := range s.nodes {
		if name.cluster == cluster && held.present {
			return fmt.Errorf("remove cluster %s: node %s is still there", cluster, name.node)
		}
	}
	for name, held := range s.nodes {
		if name.cluster == cluster {
			held.highest = 0
		}
	}
	delete(s.shared, cluster)
	delete(s.kept, cluster)
	return ctx.Err()
}

// ListShared names the clusters that have shared parts.
func (s *Substrate) ListShared(ctx context.Context) ([]string, error) {
	s.count(func(c *Calls) { c.ListShared++ })
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.shared)), ctx.Err()
}

// Dial is answered by Options.Connect, for a cluster whose shared parts are there.
func (s *Substrate) Dial(ctx context.Context, cluster string, to netip.AddrPort) (net.Conn, error) {
	s.count(func(c *Calls) { c.Dial++ })
	s.mu.Lock()
	there := s.shared[cluster]
	s.mu.Unlock()
	if !there || s.options.Connect == nil {
		return nil, fmt.Errorf("dial in the network of cluster %s: %s refused the connection", cluster, to)
	}
	return s.options.Connect(ctx, cluster, to)
}

func (s *Substrate) count(add func(*Calls)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.calls)
}

// lock keeps changes of one node apart, as the real driver's file locks do.
func (s *Substrate) lock(ctx context.Context, of name) (held *node, unlock func(), err error) {
	s.mu.Lock()
	held, ok := s.nodes[of]
	if !ok {
		held = &node{busy: make(chan struct{}, 1)}
		s.nodes[of] = held
	}
	s.mu.Unlock()
	select {
	case held.busy <- struct{}{}:
		return held, func() { <-held.busy }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}
