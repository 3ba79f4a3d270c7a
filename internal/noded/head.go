package noded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/kit/clock"
	"muster/internal/kit/lists"
	"muster/internal/protocol"
)

// How often the head looks at the scheduler. A look costs some milliseconds of CPU; besides, its own log lines wake it, so that
// these are for what is not logged.
const (
	lookFast  = 100 * time.Millisecond // something is to come, and soon
	lookSlow  = time.Second            // something is to come, for long now: a drain that waits for a job, a dead node
	lookIdle  = 2 * time.Second        // all is as wanted
	lookLeast = 50 * time.Millisecond  // from one look to the next, whatever happens
	lookShare = 4                      // times what a look took pass before the next, as its programs take time from others,
	lookRest  = 300 * time.Millisecond // but not more than this
	fastSpell = 30 * time.Second       // how long after a change lookFast lasts
)

// headDuty brings the scheduler's nodes in line with the configuration's peers, and reports what it says of them. It never
// restarts a daemon: nodes join by themselves, and leave by being deleted.
type headDuty struct {
	scheduler scheduler.Control
	check     string // that a look sets
	reporter  *reporter
	console   *console
	newest    func(context.Context) ([]protocol.Peer, error) // asks the controller

	mu      sync.Mutex
	peers   []protocol.Peer
	changed time.Time // of the peers or of what the scheduler said
	keeps   bool      // see keep

	told   *protocol.Scheduler // reported last
	toldAt time.Time

	wake chan struct{}
}

func newHeadDuty(c scheduler.Control, check string, r *reporter, out *console,
	newest func(context.Context) ([]protocol.Peer, error)) *headDuty {
	return &headDuty{scheduler: c, check: check, reporter: r, console: out, newest: newest, wake: make(chan struct{}, 1)}
}

// want sets what the scheduler is to be brought to.
func (h *headDuty) want(peers []protocol.Peer) {
	h.mu.Lock()
	h.peers = peers
	h.changed = time.Now()
	h.mu.Unlock()
	h.look()
}

// look makes the next look come soon.
func (h *headDuty) look() {
	clock.Wake(h.wake)
}

// run looks and acts until ctx ends.
func (h *headDuty) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		pause := h.once(ctx)
		took := time.Since(began)
		slow := min(lookShare*took, lookRest)
		rest := max(lookLeast-took, slow)
		select {
		case <-time.After(max(pause, slow)):
		case <-h.wake:
			_ = clock.Sleep(ctx, rest-(time.Since(began)-took))
		case <-ctx.Done():
		}
	}
}

// once looks, does what is to be done now, and says when to look again.
func (h *headDuty) once(ctx context.Context) time.Duration {
	h.mu.Lock()
	peers, keeps := h.peers, h.keeps
	h.mu.Unlock()
	view, err := h.scheduler.Observe(ctx)
	switch {
	case ctx.Err() != nil:
		return 0
	case errors.Is(err, scheduler.ErrStarting):
		h.failed(err)
		return lookLeast / 2
	case err != nil:
		h.failed(err)
		return lookFast
	}
	h.reporter.setCheck(h.check, nil)
	h.reporter.setScheduler(h.worthTelling(view))
	h.reporter.setUndone("scheduler", troubles(view.Trouble))
	if s, ok := h.scheduler.(scheduler.Suspender); ok && !keeps {
		if err := s.Awake(ctx); err != nil && ctx.Err() == nil {
			h.console.printf("%v", err)
		}
	}
	actions := plan(peers, view)
	switch {
	case keeps:
		actions = slices.DeleteFunc(actions, removes)
	case slices.ContainsFunc(actions, removes):
		actions = h.confirmed(ctx, actions, view)
	}
	for _, a := range actions {
		if err := a.do(ctx, h.scheduler); err != nil && ctx.Err() == nil {
			h.console.printf("%v", err)
		}
	}
	return h.pause(settled(peers, view) && len(actions) == 0)
}

// troubles is what is told of a view's trouble.
func troubles(text string) []protocol.Undone {
	if text == "" {
		return nil
	}
	return []protocol.Undone{{Text: text}}
}

func removes(a action) bool { return a.verb == "remove" }

// confirmed is the plan by the newest configuration there is. The scheduler can have a node before its head has heard of it,
// for instance after the controller was away; to remove it then would be for good, since nodes register only once. But a
// node starts only after the controller has written it down: what the controller does not know, after the scheduler was seen
// to have it, may go. While the controller cannot be asked, nothing is removed.
func (h *headDuty) confirmed(ctx context.Context, actions []action, view scheduler.View) []action {
	peers, err := h.newest(ctx)
	if err != nil {
		return slices.DeleteFunc(actions, removes)
	}
	return plan(peers, view)
}

func (h *headDuty) failed(err error) {
	h.reporter.setCheck(h.check, err)
	h.reporter.setScheduler(nil)
}

func (h *headDuty) pause(settled bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case settled:
		h.changed = time.Now() // what unsettles it will be news
		return lookIdle
	case time.Since(h.changed) < fastSpell:
		return lookFast
	default:
		return lookSlow
	}
}

// settled says whether the scheduler can use every compute node but those that fail a check, and knows no other.
func settled(peers []protocol.Peer, view scheduler.View) bool {
	has := lists.By(view.Nodes, func(n protocol.NodeState) string { return n.Name })
	count := 0
	for _, p := range peers {
		if p.Role != protocol.Compute {
			continue
		}
		count++
		n, found := has[p.Name]
		aside := p.Fails != "" && n.Closed()
		if !found || !aside && (p.Drain || !n.Usable()) {
			return false
		}
	}
	return count == len(view.Nodes)
}

// action is one change of the scheduler.
type action struct {
	verb string // drain, resume, remove, end
	node string
	job  int    // for end
	why  string // for drain: the check that it fails
}

// plan says what is to be done now so that the scheduler comes to what the peers say. Done again, it says the same
// until the scheduler's state has changed. Drains that an administrator of the cluster made are left alone.
func plan(peers []protocol.Peer, view scheduler.View) []action {
	wanted := map[string]protocol.Peer{}
	for _, p := range peers {
		if p.Role == protocol.Compute {
			wanted[p.Name] = p
		}
	}
	var actions []action
	ended := map[int]bool{} // once, on however many nodes the job is: a job that was queued again is not to be ended again
	for _, n := range view.Nodes {
		p, found := wanted[n.Name]
		switch {
		case !found:
			actions = append(actions, action{verb: "remove", node: n.Name})
			continue
		case p.Drain && !n.Closed():
			actions = append(actions, action{verb: "drain", node: n.Name, why: p.Fails})
		case !p.Drain && n.Closed() && strings.HasPrefix(n.Reason, scheduler.Ours):
			actions = append(actions, action{verb: "resume", node: n.Name})
		}
		if !p.DrainKill {
			continue
		}
		for _, job := range view.Jobs[n.Name] {
			if !job.Ends && !ended[job.ID] {
				ended[job.ID] = true
				actions = append(actions, action{verb: "end", node: n.Name, job: job.ID})
			}
		}
	}
	return actions
}

func (a action) do(ctx context.Context, control scheduler.Control) error {
	switch a.verb {
	case "drain":
		reason := "drain"
		if a.why != "" {
			reason = a.why + " fails"
		}
		return control.Drain(ctx, a.node, scheduler.Ours+" "+reason)
	case "resume":
		return control.Resume(ctx, a.node)
	case "end":
		return control.End(ctx, a.job)
	case "remove":
		return control.Remove(ctx, a.node)
	}
	return fmt.Errorf("no such action: %s", a.verb)
}
