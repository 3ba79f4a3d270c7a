// Package hostd is the agent of a host, in two forms. Beside a controller it is the program that opens the drivers of that host
// and answers the controller's calls (OpenAgent). On a machine of the rack it makes the guests of that machine be those that the
// controller wants (Run).
//
// What enters: beside a controller, Settings and calls by package calls. On a machine of the rack, desired states, each whole
// (protocol.Hosting), and the files of images from the boot services. What leaves: nodes and guests, by packages local and vm,
// each on its cluster's network; answers to calls, and reports of what is there. How Run goes about it:
//
//	poll → Hosting ──► look ◄── every second: what is present, and does it run?
//	                    │
//	                    ├─► one step for each guest that is not busy: make it, or take it away
//	                    ▼
//	                  reports: at once when something has changed, else now and then
//
// All that matters is on disk and in the kernel, so this process may be killed at any time: guests run on, and the next one takes
// them up. Until it has heard what is wanted it changes nothing.
package hostd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/local"
	"muster/internal/kit/clock"
	"muster/internal/kit/limit"
	"muster/internal/kit/longpoll"
	"muster/internal/protocol"
)

// Controller is whom the hypervisor works for. Every call may be repeated.
type Controller interface {
	// Hosting waits for one with a revision above after; nil if there was none for a while.
	Hosting(ctx context.Context, after int64) (*protocol.Hosting, error)
	// Hosted delivers what is present, and how far it is; the answer names the newest revision.
	Hosted(ctx context.Context, r protocol.HostReport) (protocol.ReportReply, error)
}

// Guests is what makes guests: the hypervisor's driver.
type Guests interface {
	substrate.Substrate
	// Emulates says that there is no KVM, or that this host is emulated itself. The first call may take a while.
	Emulates() bool
}

// Sleepers are the guests' driver as far as guests sleep: vm.Driver.
type Sleepers interface {
	// Sleep writes the memory of a guest that runs to a file, of so many bytes, and ends its QEMU. It may be repeated, also when
	// the guest sleeps already.
	Sleep(ctx context.Context, r substrate.Ref) (bytes int64, err error)
	// Wake lets a guest that sleeps run on, and removes the file. It may be repeated, also when the guest runs.
	Wake(ctx context.Context, n substrate.Node) error
}

// Images fetches what guests boot from.
type Images interface {
	// Fetch returns when the image is here whole; say hears how far it is.
	Fetch(ctx context.Context, i protocol.HostedImage, say io.Writer) error
	// Keep removes all images but these.
	Keep(images []protocol.HostedImage) error
}

// Options of Run.
type Options struct {
	Controller Controller
	Refused    error // what errors of the Controller wrap when this boot is no longer wanted
	Boot       int64 // of this machine
	Guests     Guests
	Networks   local.Cables
	Images     Images
	Movers     Movers                            // nil: guests neither come nor go while they run
	Sleepers   Sleepers                          // nil: guests do not sleep
	Keys       Keys                              // for their ways to other hosts
	Address    func() (netip.AddrPort, error)    // where others' guests come; nil: that of protocol.HostBridge
	Dir        string                            // where this package keeps which tries are over
	Lost       func() (map[string]string, error) // devices that are lost, and why; nil: there are none
	Partitions func() map[string]string          // HostReport.Partitions; nil: there are none
	Trouble    string                            // why no guest can be held here; then Guests, Networks and Images may be nil
	Console    io.Writer
	Look       time.Duration // how often guests are looked at; 0: every second
}

// host is a hypervisor at work.
type host struct {
	Options
	steps    sync.WaitGroup
	news     chan struct{} // holds one token while something has to be looked at
	unsaid   chan struct{} // holds one token while something may be unsaid
	poll     longpoll.Poll
	receiver *receiver

	mu       sync.Mutex
	wanted   *protocol.Hosting // nil: nothing has been heard
	guests   map[id]*guest
	networks []string // whose networks are there
	emulates bool
	lost     map[string]string
	strange  map[string]string // HostReport.Partitions
	looked   bool              // what is present has been seen once
}

// id is a guest's, of whatever boot.
type id struct{ cluster, node string }

// Run holds guests until ctx ends, or until the controller refuses: an error that is Options.Refused. Guests run on after it.
func Run(ctx context.Context, o Options) error {
	if o.Look == 0 {
		o.Look = time.Second
	}
	if o.Address == nil {
		o.Address = func() (netip.AddrPort, error) { return addressOf(protocol.HostBridge) }
	}
	h := &host{Options: o, news: make(chan struct{}, 1), unsaid: make(chan struct{}, 1), guests: map[id]*guest{}}
	h.receiver = &receiver{keys: o.Keys, say: h.say, lines: limit.LinesOfUnknown(),
		inside: func(ctx context.Context) (net.Conn, error) { return o.Movers.Dial(ctx) }}
	defer h.receiver.shut()
	if o.Trouble == "" {
		if err := os.MkdirAll(h.tries(), 0o700); err != nil {
			return fmt.Errorf("folder of tries: %w", err)
		}
	}
	defer h.steps.Wait()
	all, within := errgroup.WithContext(ctx)
	if o.Trouble == "" {
		all.Go(func() error { return h.work(within) })
		all.Go(func() error { return h.follow(within) })
	}
	all.Go(func() error { return h.tell(within) })
	if err := all.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (h *host) say(format string, args ...any) { fmt.Fprintf(h.Console, format+"\n", args...) }

func (h *host) tries() string { return filepath.Join(h.Dir, "tries") }

// follow takes up each new Hosting.
func (h *host) follow(ctx context.Context) error {
	failing := false
	for {
		wanted, err := longpoll.Ask(ctx, &h.poll, h.revision(), h.Controller.Hosting)
		switch {
		case ctx.Err() != nil:
			return nil
		case h.Refused != nil && errors.Is(err, h.Refused):
			return err
		case errors.Is(err, longpoll.ErrNewer):
		case err != nil:
			if !failing {
				h.say("%v; trying on", err)
			}
			if clock.Sleep(ctx, time.Second) != nil {
				return nil
			}
		case wanted != nil:
			h.take(wanted)
		}
		failing = err != nil && !errors.Is(err, longpoll.ErrNewer)
	}
}

func (h *host) revision() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wanted == nil {
		return 0
	}
	return h.wanted.Revision
}

// take makes a Hosting what is wanted, unless it is an older one. What is being made and is not wanted any more is given up.
func (h *host) take(wanted *protocol.Hosting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wanted != nil && wanted.Revision <= h.wanted.Revision {
		return
	}
	h.wanted = wanted
	for _, g := range h.guests {
		g.want, g.move = nil, nil
	}
	for _, w := range wanted.Guests {
		h.guest(id{w.Cluster, w.Node}).want = &w
	}
	for _, m := range wanted.Moves {
		h.guest(id{m.Guest.Cluster, m.Guest.Node}).move = &m
	}
	for _, g := range h.guests {
		if g.move == nil {
			g.moved = nil
		}
		making := g.on == stage{} && g.want != nil && g.want.Boot == g.making
		if g.giveUp != nil && !making && (g.on == stage{} || g.on != stageOf(g.move)) {
			g.giveUp()
		}
	}
	h.awaits()
	h.say("%d guests are wanted here", len(wanted.Guests))
	clock.Wake(h.news)
}

// guest finds or adds one. The caller has the lock.
func (h *host) guest(i id) *guest {
	g := h.guests[i]
	if g == nil {
		g = &guest{id: i}
		h.guests[i] = g
	}
	return g
}

// work looks, again and again, and begins what is to be done.
func (h *host) work(ctx context.Context) error {
	emulates := h.Guests.Emulates()
	h.mu.Lock()
	h.emulates = emulates
	h.mu.Unlock()
	tick := time.NewTicker(h.Look)
	defer tick.Stop()
	said := ""
	for {
		text := ""
		if err := h.look(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != said {
			h.say("%s", text)
		}
		said = text
		select {
		case <-ctx.Done():
			return nil
		case <-h.news:
		case <-tick.C:
		}
	}
}

// look sees what is present and begins one step for each guest that is not busy.
func (h *host) look(ctx context.Context) error {
	present, err := h.Guests.List(ctx)
	if err != nil {
		return fmt.Errorf("look for guests: %w", err)
	}
	beside := h.lookBeside(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range present {
		h.guest(id{r.Cluster, r.Node})
	}
	h.looked = h.looked || beside == nil
	busy := false
	for i, g := range h.guests {
		if !g.busy {
			boot := int64(0)
			for _, r := range present {
				if i == (id{r.Cluster, r.Node}) {
					boot = max(boot, r.Boot)
				}
			}
			h.begin(ctx, g, boot)
		}
		busy = busy || g.busy && g.making > 0
		if !g.busy && g.want == nil && g.move == nil && !g.seen.Present {
			delete(h.guests, i)
		}
	}
	if !busy && h.wanted != nil {
		err = h.Images.Keep(h.wanted.Images)
	}
	clock.Wake(h.unsaid)
	return errors.Join(beside, err)
}

// lookBeside sees what there is beside guests. What cannot be seen stays as it was seen last: one device that does not tell of
// itself is not to keep all guests from coming and going.
func (h *host) lookBeside(ctx context.Context) error {
	lost, err1 := map[string]string(nil), error(nil)
	if h.Lost != nil {
		lost, err1 = h.Lost()
	}
	networks, err2 := h.cable(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Partitions != nil {
		h.strange = h.Partitions()
	}
	if err1 == nil {
		h.lost = lost
	} else {
		err1 = fmt.Errorf("look for lost devices: %w", err1)
	}
	if err2 == nil {
		h.networks = networks
	} else {
		err2 = fmt.Errorf("look for networks: %w", err2)
	}
	return errors.Join(err1, err2)
}

// cable makes the networks that are wanted, takes away those that are not and have no guest, and says what is there. One that
// cannot be made shows where a guest's try fails.
func (h *host) cable(ctx context.Context) ([]string, error) {
	there, err := h.Networks.ListShared(ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	wanted := h.wanted
	held := map[string]bool{}
	for i := range h.guests {
		held[i.cluster] = true
	}
	h.mu.Unlock()
	if wanted == nil {
		return there, nil
	}
	for _, n := range wanted.Networks {
		held[n.Cluster] = true
		if err := h.network(ctx, n); err == nil && !slices.Contains(there, n.Cluster) {
			there = append(there, n.Cluster)
		}
	}
	there = slices.DeleteFunc(there, func(cluster string) bool {
		return !held[cluster] && h.Networks.RemoveShared(ctx, cluster) == nil // while a guest's port is there it is refused
	})
	slices.Sort(there)
	return there, nil
}

// network makes the network of a cluster, whose gateway is behind the uplink.
func (h *host) network(ctx context.Context, n protocol.HostedNetwork) error {
	return h.Networks.EnsureShared(ctx, n.Cluster,
		substrate.Network{Segment: n.Segment, Away: true, Uplinks: []substrate.Uplink{{Interface: protocol.HostBridge}}})
}
