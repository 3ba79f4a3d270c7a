package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/drivers/substrate/vm"
	"muster/internal/kit/clock"
	"muster/internal/kit/files"
	"muster/internal/protocol"
)

// guest is one of this machine's, present or wanted.
type guest struct {
	id
	want   *protocol.HostedGuest // nil: it is to go
	move   *protocol.HostedMove  // nil: it is on no way to or from here
	moved  *protocol.HostedMoved // the step of it that was over last; nil: none was
	on     stage                 // the step of it that goes on
	busy   bool                  // a step is going on
	making int64                 // the boot that the step makes; 0: none
	giveUp context.CancelFunc    // ends the making; nil: there is none
	there  int64                 // the boot of it that is present, as it is listed; 0: none
	known  bool                  // it has been observed: seen is what was seen
	seen   substrate.Observation
	over   try
	stuck  string    // why it could not be removed
	blind  string    // why it cannot be observed now
	after  time.Time // not to be tried to be removed before
	doing  string
}

// try is the newest one that is over. It is on disk, so that the next agent does not try it again.
type try struct {
	Boot, Try                     int64
	Bytes                         int64  `json:",omitempty"`
	Refused, NoRoom, Gone, Failed string `json:",omitempty"`
}

// again is how long a guest that could not be removed is left alone.
const again = 2 * time.Second

// begin begins the next step of a guest whose given boot is present, or that has no boot. The caller has the lock.
func (h *host) begin(ctx context.Context, g *guest, boot int64) {
	g.there = boot
	switch {
	case h.wanted == nil: // nothing is changed before it is known what is wanted
	case g.untravelled():
		within, giveUp := context.WithCancel(ctx)
		m := *g.move
		g.making, g.on, g.giveUp, g.doing = m.Guest.Boot, stageOf(g.move), giveUp, moving[m.Do]
		h.step(g, func() {
			defer giveUp()
			h.travel(within, ctx, g, m)
		})
		return
	case g.move != nil: // what there is of it is left alone
	case g.want == nil && boot > 0 && time.Now().After(g.after):
		h.step(g, func() { h.remove(ctx, g) })
		return
	case g.want != nil && h.untried(g):
		g.stuck = ""
		within, giveUp := context.WithCancel(ctx)
		want := *g.want
		g.making, g.giveUp, g.doing = want.Boot, giveUp, "begins"
		h.step(g, func() {
			defer giveUp()
			h.make(within, ctx, g, want)
		})
		return
	}
	if boot == 0 {
		g.known, g.seen, g.blind = true, substrate.Observation{}, ""
		return
	}
	h.step(g, func() { h.observe(ctx, g) })
}

// step does one in the background. The caller has the lock; the step has not.
func (h *host) step(g *guest, do func()) {
	g.busy = true
	h.steps.Go(func() {
		do()
		h.mu.Lock()
		changed := g.making > 0 || !g.seen.Present
		g.busy, g.making, g.on, g.giveUp, g.doing = false, 0, stage{}, nil, ""
		h.mu.Unlock()
		if changed { // there may be more to do
			clock.Wake(h.news)
		}
		clock.Wake(h.unsaid)
	})
}

// untried says that there is a try that is not over. The caller has the lock.
func (h *host) untried(g *guest) bool {
	if g.over.Boot == 0 {
		g.over = h.remembered(g.id) // by an earlier agent
	}
	w := g.want
	return w.Boot > g.over.Boot || w.Boot == g.over.Boot && w.Try > g.over.Try
}

// make is one try to do with a boot what is asked. within ends when it is given up, ctx when all of us ends.
func (h *host) make(within, ctx context.Context, g *guest, want protocol.HostedGuest) {
	over := try{Boot: want.Boot, Try: want.Try}
	err := h.attempt(within, g, want, &over)
	if ctx.Err() != nil {
		return // not over: the next agent goes on
	}
	switch {
	case within.Err() != nil && err != nil: // it is not wanted any more, and no caller waits for the reason
	case errors.Is(err, substrate.ErrRefused):
		over.Refused = err.Error()
	case errors.Is(err, substrate.ErrNoRoom):
		over.NoRoom = err.Error()
	case errors.Is(err, vm.ErrNotHere):
		over.Gone = err.Error()
	case err != nil:
		over.Failed = err.Error()
	}
	if err == nil {
		h.say("guest %s: boot %d %s", want.Machine, want.Boot, done[want.Do])
	} else {
		h.say("guest %s: %v", want.Machine, err)
	}
	if err := h.remember(g.id, over); err != nil {
		h.say("%v", err)
	}
	// Looked at first: a try that is said to be over, of a guest that was last seen when it did not run yet, has failed.
	h.observe(ctx, g)
	h.mu.Lock()
	g.over = over
	h.mu.Unlock()
}

// done is what has become of a guest when a try has succeeded.
var done = map[protocol.HostedDo]string{protocol.DoRun: "runs", protocol.DoSleep: "is suspended", protocol.DoWake: "is resumed"}

func (h *host) attempt(ctx context.Context, g *guest, want protocol.HostedGuest, over *try) error {
	n, err := remote.Node(want)
	if err != nil {
		return err
	}
	if want.Do != protocol.DoRun && h.Sleepers == nil {
		return fmt.Errorf("%w: guests cannot be suspended here", substrate.ErrRefused)
	}
	if want.Do == protocol.DoSleep {
		h.is(g, "writes its memory to disk")
		over.Bytes, err = h.Sleepers.Sleep(ctx, n.Ref)
		return err
	}
	if err := h.furnish(ctx, g, want); err != nil {
		return err
	}
	switch want.Do {
	case protocol.DoRun:
		h.is(g, "starts")
		return h.Guests.Ensure(ctx, n)
	case protocol.DoWake:
		h.is(g, "reads its memory from disk")
		return h.Sleepers.Wake(ctx, n)
	}
	return fmt.Errorf("this agent does not know the request %q", want.Do)
}

// furnish makes a guest's network and fetches its image.
func (h *host) furnish(ctx context.Context, g *guest, want protocol.HostedGuest) error {
	h.mu.Lock()
	wanted := *h.wanted
	h.mu.Unlock()
	for _, network := range wanted.Networks {
		if network.Cluster == want.Cluster {
			if err := h.network(ctx, network); err != nil {
				return err
			}
		}
	}
	for _, image := range wanted.Images {
		if image.Digest == want.Image {
			if err := h.Images.Fetch(ctx, image, doing{h, g, "fetches its image: "}); err != nil {
				return err
			}
		}
	}
	return nil
}

// doing says how far a guest is: each line replaces the one before.
type doing struct {
	h      *host
	g      *guest
	prefix string
}

func (d doing) Write(line []byte) (int, error) {
	d.h.is(d.g, d.prefix+strings.TrimSpace(strings.TrimPrefix(string(line), "muster: ")))
	return len(line), nil
}

func (h *host) is(g *guest, doing string) {
	h.mu.Lock()
	g.doing = doing
	h.mu.Unlock()
	clock.Wake(h.unsaid)
}

// remove takes a guest away, with what is remembered of it.
func (h *host) remove(ctx context.Context, g *guest) {
	err := h.Guests.Remove(ctx, substrate.Ref{Cluster: g.cluster, Node: g.node})
	if err == nil {
		err = os.Remove(h.record(g.id))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	h.mu.Lock()
	if err != nil {
		g.stuck, g.after = "not removed: "+err.Error(), time.Now().Add(again)
	} else {
		g.seen, g.over, g.stuck, g.blind = substrate.Observation{}, try{}, "", ""
	}
	h.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		h.say("guest %s of cluster %s: %v", g.node, g.cluster, err)
		h.observe(ctx, g)
	}
}

func (h *host) observe(ctx context.Context, g *guest) {
	seen, err := h.Guests.Observe(ctx, substrate.Ref{Cluster: g.cluster, Node: g.node})
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil { // what was seen last stands
		if g.blind != err.Error() {
			h.say("guest %s of cluster %s: %v", g.node, g.cluster, err)
		}
		g.blind = err.Error()
		g.known = g.known && g.making == 0 // what a try has left is not known, and is not told to be nothing
		return
	}
	if g.seen.Running && !seen.Running && seen.Present {
		h.say("guest %s of cluster %s: %s", g.node, g.cluster, seen.Detail)
	}
	g.known, g.seen, g.blind = true, seen, ""
}

func (h *host) record(i id) string { return filepath.Join(h.tries(), i.cluster+"."+i.node) }

// remembered is the newest try of a guest that is over; one that cannot be read is none.
func (h *host) remembered(i id) try {
	var t try
	if text, err := os.ReadFile(h.record(i)); err == nil && json.Unmarshal(text, &t) != nil {
		return try{}
	}
	return t
}

func (h *host) remember(i id, t try) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := files.Replace(h.record(i), text, 0o600); err != nil {
		return fmt.Errorf("remember a try: %w", err)
	}
	return nil
}
