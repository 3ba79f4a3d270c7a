package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/scheduler/slurm"
)

// How often the head looks at Slurm. A look costs 5 ms of CPU; besides, slurmctld's own log lines wake it, so that
// these are for what is not logged.
const (
	lookFast   = 100 * time.Millisecond // something is to come, and soon
	lookSlow   = time.Second            // something is to come, for long now: a drain that waits for a job, a dead node
	lookIdle   = 2 * time.Second        // all is as wanted
	lookLeast  = 50 * time.Millisecond  // between two looks, whatever happens
	fastSpell  = 30 * time.Second       // how long after a change lookFast lasts
	ourReasons = "muster:"              // begins the reason of every drain that is ours to end
)

// slurmControl is slurm.Control, or a fake.
type slurmControl interface {
	View(context.Context) (scheduler.View, error)
	Drain(ctx context.Context, node, reason string) error
	Down(ctx context.Context, node, reason string) error
	Resume(ctx context.Context, node string) error
	Delete(ctx context.Context, node string) error
	End(ctx context.Context, job int) error
	Nudge(ctx context.Context, nodes []string) error
}

// headDuty brings Slurm's nodes in line with the configuration's peers, and reports what Slurm says of them. It never
// restarts a daemon: nodes join by themselves, and leave by being deleted.
type headDuty struct {
	slurm    slurmControl
	reporter *reporter
	console  *console
	ready    func() bool                                    // slurmctld listens; asking earlier would cost a second
	newest   func(context.Context) ([]protocol.Peer, error) // asks the controller
	back     func(context.Context) error                    // is called while there is no pause; nil: nothing is to be done

	mu      sync.Mutex
	peers   []protocol.Peer
	changed time.Time // of the peers or of what Slurm said
	keeps   bool      // see keep

	told   *protocol.Scheduler // reported last
	toldAt time.Time
	usable map[string]bool // nodes that could take jobs at the last look

	wake chan struct{}
}

func newHeadDuty(control slurmControl, r *reporter, c *console, ready func() bool, newest func(context.Context) ([]protocol.Peer, error)) *headDuty {
	return &headDuty{slurm: control, reporter: r, console: c, ready: ready, newest: newest, wake: make(chan struct{}, 1)}
}

// want sets what Slurm is to be brought to.
func (h *headDuty) want(peers []protocol.Peer) {
	h.mu.Lock()
	h.peers = peers
	h.changed = time.Now()
	h.mu.Unlock()
	h.look()
}

// look makes the next look come soon.
func (h *headDuty) look() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run looks and acts until ctx ends.
func (h *headDuty) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		pause := h.once(ctx)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-h.wake:
			_ = sleep(ctx, max(0, lookLeast-time.Since(began)))
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// once looks, does what is to be done now, and says when to look again.
func (h *headDuty) once(ctx context.Context) time.Duration {
	h.mu.Lock()
	peers, keeps := h.peers, h.keeps
	h.mu.Unlock()
	if !h.ready() {
		h.failed(errors.New("not listening"))
		return lookLeast / 2
	}
	view, err := h.slurm.View(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		h.failed(err)
		return lookFast
	}
	h.reporter.setCheck("slurmctld", nil)
	h.reporter.setScheduler(h.slurmOf(view))
	if fresh := h.fresh(view); len(fresh) > 0 && view.Total > 0 {
		if err := h.slurm.Nudge(ctx, fresh); err != nil && ctx.Err() == nil {
			h.console.printf("%v", err)
		}
	}
	if !keeps && h.back != nil {
		if err := h.back(ctx); err != nil && ctx.Err() == nil {
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
		if err := a.do(ctx, h.slurm); err != nil && ctx.Err() == nil {
			h.console.printf("%v", err)
		}
	}
	return h.pause(settled(peers, view) && len(actions) == 0)
}

func removes(a action) bool { return a.verb == "remove" }

// confirmed is the plan by the newest configuration there is. A node can be in Slurm before its head has heard of it, for
// instance after the controller was away; to remove it then would be for good, since slurmd registers only once. But a
// node starts only after the controller has written it down: what the controller does not know, after Slurm was seen to
// have it, may go. While the controller cannot be asked, nothing is removed.
func (h *headDuty) confirmed(ctx context.Context, actions []action, view scheduler.View) []action {
	peers, err := h.newest(ctx)
	if err != nil {
		return slices.DeleteFunc(actions, removes)
	}
	return plan(peers, view)
}

func (h *headDuty) failed(err error) {
	h.reporter.setCheck("slurmctld", err)
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

// settled says whether every compute node is in Slurm and works, and no other is.
func settled(peers []protocol.Peer, view scheduler.View) bool {
	has := map[string]protocol.NodeState{}
	for _, n := range view.Nodes {
		has[n.Name] = n
	}
	count := 0
	for _, p := range peers {
		if p.Role != protocol.Compute {
			continue
		}
		count++
		n, found := has[p.Name]
		if !found || p.Drain || !n.Usable() {
			return false
		}
	}
	return count == len(view.Nodes)
}

// action is one change of Slurm.
type action struct {
	verb string // drain, resume, remove, end
	node string
	job  int // for end
}

// plan says what is to be done now so that Slurm comes to what the peers say. Done again, it says the same until
// Slurm's state has changed. Drains that an administrator of the cluster made are left alone.
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
			actions = append(actions, action{verb: "drain", node: n.Name})
		case !p.Drain && n.Closed() && strings.HasPrefix(n.Reason, ourReasons):
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

func (a action) do(ctx context.Context, control slurmControl) error {
	switch a.verb {
	case "drain":
		return control.Drain(ctx, a.node, ourReasons+" drain")
	case "resume":
		return control.Resume(ctx, a.node)
	case "end":
		return control.End(ctx, a.job)
	case "remove":
		return a.remove(ctx, control)
	}
	return fmt.Errorf("no such action: %s", a.verb)
}

// remove deletes a node, declaring it dead first where jobs still hold it. They are gone a moment later, and the next
// look tries again.
func (a action) remove(ctx context.Context, control slurmControl) error {
	err := control.Delete(ctx, a.node)
	if errors.Is(err, slurm.ErrBusy) {
		if err = control.Down(ctx, a.node, ourReasons+" removed"); err == nil {
			err = control.Delete(ctx, a.node)
		}
	}
	if errors.Is(err, slurm.ErrUnknown) || errors.Is(err, slurm.ErrBusy) {
		return nil
	}
	return err
}
