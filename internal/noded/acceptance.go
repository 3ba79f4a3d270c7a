package noded

import (
	"context"
	"errors"
	"sync"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/inspection"
	"muster/internal/inspection/measure"
	"muster/internal/kit/clock"
	"muster/internal/kit/lists"
	"muster/internal/protocol"
)

// effort is what a test may cost.
type effort struct {
	cpus        int           // that take part; 0: all
	shared      bool          // with others: rates are taken of the time for which the test has had a CPU
	arrays      int64         // bytes of a CPU's part of each of triad's arrays, at most: each is touched before it is used
	compute     time.Duration // each of these: about so long
	bandwidth   time.Duration
	throughput  time.Duration // 0: one small frame
	roundTrips  int
	waitForPeer time.Duration // that is busy or, as a neighbour, not there yet
}

// effortFor is what a node's test may cost: about a second. A brief one takes a few milliseconds: fifty nodes of one host
// may start at once, and what they measure then says more of the others than of the node.
func effortFor(brief bool) effort {
	if brief {
		return effort{
			cpus: 1, shared: true, arrays: 256 << 10, compute: time.Millisecond, bandwidth: time.Millisecond,
			roundTrips: 10, waitForPeer: 100 * time.Millisecond,
		}
	}
	return effort{
		arrays: 64 << 20, compute: 200 * time.Millisecond, bandwidth: 300 * time.Millisecond, throughput: 80 * time.Millisecond,
		roundTrips: 300, waitForPeer: 2 * time.Second,
	}
}

// tester measures the node when its configuration asks for it. It does so before the node is handed over and keeps jobs away
// meanwhile; a brief test is made beside the node's first use, when those that started with it have done so.
type tester struct {
	beside    time.Duration // from when the node could measure itself to a brief test
	reporter  *reporter
	console   *console
	responder responder

	mu      sync.Mutex
	config  *protocol.Config
	done    int64         // number of the last test that was made
	changed chan struct{} // closed and replaced when one of these changes
}

func newTester(beside time.Duration, r *reporter, c *console) *tester {
	return &tester{beside: beside, reporter: r, console: c, changed: make(chan struct{})}
}

// want hears of a new configuration.
func (t *tester) want(config *protocol.Config) {
	peers := lists.Map(config.Peers, func(p protocol.Peer) string { return p.Address })
	t.responder.admit(peers)
	t.set(func() { t.config = config })
	if config.Test == nil {
		t.reporter.setTest(nil)
	} else if !config.Test.Brief {
		t.reporter.expectTest(config.Test.Number)
	}
}

func (t *tester) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// until waits for a state of the configuration and the tests that were made.
func (t *tester) until(ctx context.Context, so func(c *protocol.Config, done int64) bool) (*protocol.Config, error) {
	for {
		t.mu.Lock()
		config, done, changed := t.config, t.done, t.changed
		t.mu.Unlock()
		if so(config, done) {
			return config, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// cleared waits until the node may have jobs.
func (t *tester) cleared(ctx context.Context) error {
	_, err := t.until(ctx, func(c *protocol.Config, done int64) bool {
		return c.Test == nil || !c.Test.Hold && (c.Test.Brief || c.Test.Number <= done)
	})
	return err
}

// run makes every test that is asked for, until ctx ends.
func (t *tester) run(ctx context.Context) {
	asked := func(c *protocol.Config, done int64) bool { return c.Test != nil && c.Test.Number > done }
	for {
		config, err := t.until(ctx, asked)
		if err == nil && config.Test.Brief {
			if err = clock.Sleep(ctx, t.beside); err == nil {
				config, err = t.until(ctx, asked) // still, or again
			}
		}
		if err != nil {
			return
		}
		result := t.test(ctx, config)
		if ctx.Err() != nil {
			return
		}
		t.console.printf("measured itself in %v", result.Took.Round(time.Millisecond))
		t.reporter.setTest(&result)
		t.set(func() { t.done = result.Number })
	}
}

// measure makes the node's tests, once what may disturb them is up.
func (n *node) measure(ctx context.Context) {
	select {
	case <-n.homeThere:
	case <-ctx.Done():
		return
	}
	if n.driver.Settled(ctx) == nil {
		n.tester.run(ctx)
	}
}

// test measures once. What waits for others does not count as its cost.
func (t *tester) test(ctx context.Context, c *protocol.Config) protocol.TestResult {
	e := effortFor(c.Test.Brief)
	result := protocol.TestResult{Number: c.Test.Number}
	t.alone(&result, func() { result.Measures = processors(ctx, e, int64(c.Self.MemoryMiB)<<20) })
	if c.Self.Role == protocol.Head {
		return result
	}
	head := scheduler.Head(c)
	trip, rate := t.network(ctx, &result, e, []protocol.Peer{head}, true)
	trip.Quantity, rate.Quantity = protocol.HeadRoundTrip, protocol.HeadThroughput
	result.Measures = append(result.Measures, trip, rate)
	if len(c.Test.Neighbours) == 0 {
		return result
	}
	var neighbours []protocol.Peer
	for _, name := range c.Test.Neighbours {
		for _, p := range c.Peers {
			if p.Name == name {
				neighbours = append(neighbours, p)
			}
		}
	}
	trip, rate = t.network(ctx, &result, e, neighbours, false)
	trip.Quantity, rate.Quantity = protocol.NeighbourRoundTrip, protocol.NeighbourThroughput
	result.Measures = append(result.Measures, trip, rate)
	return result
}

// alone does something while the node answers no peer, and counts what it took.
func (t *tester) alone(result *protocol.TestResult, do func()) {
	t.responder.one.Lock()
	defer t.responder.one.Unlock()
	began := time.Now()
	do()
	result.Took += time.Since(began)
}

// processors measures CPUs and memory. limit is how many bytes of memory the node may use; 0: all.
func processors(ctx context.Context, e effort, limit int64) []protocol.Measure {
	cpus := measure.CPUs()
	if e.cpus > 0 && e.cpus < len(cpus) {
		cpus = cpus[:e.cpus]
	}
	caches, free := inspection.Memory()
	if limit > 0 {
		free = min(free, limit)
	}
	size, _ := measure.ArraySize(len(cpus), caches, free)
	size = min(size, e.arrays*int64(len(cpus)))
	clock := measure.Wall()
	if e.shared {
		clock = measure.Own()
	}
	memory := protocol.Measure{Quantity: protocol.MemoryBandwidth}
	gbs, err := measure.Triad(ctx, cpus, size, clock, e.bandwidth)
	if memory.Value = gbs; err != nil {
		memory = protocol.Measure{Quantity: protocol.MemoryBandwidth, Why: err.Error()}
	}
	total := 0.0
	for _, rate := range measure.Hashes(ctx, cpus, clock, e.compute) {
		total += rate
	}
	return []protocol.Measure{memory, {Quantity: protocol.ComputeRate, Value: total / 1000}}
}

// network measures round trip and throughput to the first of these peers that answers. Patient waits as long as it
// takes for one that is not there: nothing works without it. A busy one is waited for only so long.
func (t *tester) network(ctx context.Context, result *protocol.TestResult, e effort, peers []protocol.Peer, patient bool) (trip,
	rate protocol.Measure) {
	var why error = errors.New("there is none")
	since := time.Now()
	for deadline := since.Add(e.waitForPeer); ctx.Err() == nil; {
		for _, p := range peers {
			began := time.Now()
			x, err := openExchange(ctx, p.Address)
			if err == nil {
				trip.Value, rate.Value, err = exchanged(x, e)
				x.close()
				result.Took += time.Since(began)
			}
			if err == nil {
				trip.With, rate.With = p.Name, p.Name
				return trip, rate
			}
			why = err
			if patient && !errors.Is(err, errBusy) {
				deadline = time.Now().Add(e.waitForPeer)
			}
		}
		if time.Now().After(deadline) || scheduler.Pause(ctx, since) != nil {
			break
		}
	}
	with := ""
	if len(peers) > 0 {
		with = peers[0].Name
	}
	missing := protocol.Measure{With: with, Why: why.Error()}
	return missing, missing
}

// exchanged measures over an open exchange: µs and MB/s.
func exchanged(x *exchange, e effort) (us, mbs float64, err error) {
	trip, err := x.roundTrip(e.roundTrips)
	if err != nil {
		return 0, 0, err
	}
	rate, err := x.throughput(e.throughput)
	return float64(trip.Nanoseconds()) / 1e3, rate / 1e6, err
}
