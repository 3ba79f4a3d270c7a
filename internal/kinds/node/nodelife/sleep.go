package nodelife

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

// A cluster of guests may pause and keep what they have in memory: the head goes first, so that its scheduler never sees them
// silent, and takes its queue with it; then each node goes to sleep, and is pending on a machine that holds nothing. Back
// again, nodes wake before there is a head, which finds them all where it left them. What cannot sleep goes as in any pause.

// sleepTries is how often a node is put to sleep in vain before it goes as in any pause.
const sleepTries = 3

// orSleeps goes before the handler of a node that is ready. One that is being put to sleep is silent, and nothing is wrong
// with it.
func (w Handlers) orSleeps(handle func(context.Context, nodeView) core.Outcome) func(context.Context, nodeView) core.Outcome {
	return func(ctx context.Context, n nodeView) core.Outcome {
		if n.Sleeps && n.Desired == core.Present && n.cluster.Desired == cluster.ToPause {
			return w.fallAsleep(ctx, n)
		}
		return handle(ctx, n)
	}
}

// sleeper is what puts the node to sleep and wakes it. Another controller, on a host that holds guests, may have begun it, and
// this one have none.
func (w Handlers) sleeper(n nodeView) (substrate.Sleeper, error) {
	sleeper := w.provider(n).Sleeper
	if sleeper == nil || !sleeper.CanSuspend(n.host.Name) {
		return nil, fmt.Errorf("this controller does not reach the guests of %s", n.host.Name)
	}
	return sleeper, nil
}

// fallAsleep writes a node's memory to disk.
func (w Handlers) fallAsleep(ctx context.Context, n nodeView) core.Outcome {
	if apart := n.apart(); apart != "" {
		return n.fail("%s", apart).Because(life.CauseMachine)
	}
	limited, cancel := context.WithTimeout(ctx, w.provider(n).Limits.Move)
	defer cancel()
	var bytes int64
	sleeper, err := w.sleeper(n)
	if err == nil {
		bytes, err = sleeper.Sleep(limited, n.ref(), n.host.Name)
	}
	if errors.Is(err, substrate.ErrUnderway) { // it goes on without this handler, and a report wakes the next
		limit := w.provider(n).Limits.Move
		if n.cluster.Phase != cluster.Pausing || n.now.Sub(n.cluster.PhaseAt) < limit {
			return core.WaitFor(nodeLooks, "is being suspended: %v", err)
		}
		err = fmt.Errorf("%w: its memory was not written within %s (%v)", substrate.ErrRefused, limit, err)
	}
	final := errors.Is(err, substrate.ErrNoRoom) || errors.Is(err, substrate.ErrRefused) || errors.Is(err, substrate.ErrEnded)
	switch {
	case err == nil:
		o := n.inform(core.Pending, "suspended: its memory takes %s on %s", words.Size(bytes), n.host.Name)
		o.Asleep = true
		return o.With(func(ctx context.Context, tx *core.Tx) error { return node.FellAsleep(ctx, tx, n.Node) })
	case ctx.Err() != nil || !final && n.Attempts < sleepTries:
		return core.Retry(err)
	}
	return core.WaitFor(time.Millisecond, "cannot be suspended: %v", err).With(func(ctx context.Context, tx *core.Tx) error {
		n.tell(tx, "node.awake", fmt.Sprintf("cannot be suspended, and its jobs are requeued: %v", err))
		tx.Wake(cluster.Kind, n.Cluster)
		return node.WantAbsent(ctx, tx, n.ID, cluster.AtOnce)
	})
}

// nodeAsleep sleeps until its cluster is wanted again, and admission has found it a part of its host.
func (n nodeView) nodeAsleep() core.Outcome {
	lost := n.memoryLost()
	switch {
	case lost != "" && n.cluster.Desired == core.Present:
		return n.fail("cannot be resumed: %s", lost).Because(life.CauseMachine)
	case lost != "":
		return core.WaitFor(time.Millisecond, "%s", lost).With(func(ctx context.Context, tx *core.Tx) error {
			n.tell(tx, "node.lost", fmt.Sprintf("its memory is lost, and it is replaced when its cluster is resumed: %s", lost))
			tx.Wake(cluster.Kind, n.Cluster)
			return node.WantAbsent(ctx, tx, n.ID, cluster.AtOnce)
		})
	case n.cluster.Desired != core.Present:
		return core.Rest()
	}
	return n.next(node.Booting, "resumes on %s", n.host.Name)
}

// memoryLost says why nothing can be woken on the node's host any more; "" if it can. A machine of its own that is set apart,
// or is no hypervisor any more, is switched off, and its disk erased.
func (n nodeView) memoryLost() string {
	switch h := n.host; {
	case !h.HostsOnDemand():
		return ""
	case h.QuarantineReason != "":
		return fmt.Sprintf("its host %s is quarantined: %s", h.Name, h.QuarantineReason)
	case h.Phase != machine.InUse:
		return fmt.Sprintf("its host %s is %s", h.Name, h.Phase)
	}
	return ""
}

// wakeUp lets a node run on that slept.
func (w Handlers) wakeUp(ctx context.Context, n nodeView) core.Outcome {
	if lost := n.memoryLost(); lost != "" {
		return n.fail("cannot be resumed: %s", lost).Because(life.CauseMachine)
	}
	sleeper, err := w.sleeper(n)
	if err != nil {
		return core.Retry(err)
	}
	if err := w.Shared.EnsureShared(ctx, n.Cluster, n.network()); err != nil {
		return core.Retry(err)
	}
	limited, cancel := context.WithTimeout(ctx, w.provider(n).Limits.Move)
	defer cancel()
	err = sleeper.Wake(limited, w.describe(n), n.host.Name)
	switch {
	case errors.Is(err, substrate.ErrUnderway): // as when it is being suspended
		return core.WaitFor(nodeLooks, "resumes on %s: %v", n.host.Name, err)
	case errors.Is(err, substrate.ErrRefused), errors.Is(err, substrate.ErrEnded):
		return n.fail("it cannot be resumed on %s: %v", n.host.Name, err).Because(life.CauseMachine)
	case err != nil:
		return core.Retry(err)
	}
	seen, err := w.provider(n).Substrate.Observe(ctx, n.ref())
	if err != nil {
		return core.Retry(err)
	}
	awake := n.inform(node.Joining, "resumed, with everything that ran on it").With(func(ctx context.Context, tx *core.Tx) error {
		return node.WokeUp(ctx, tx, n.ID)
	})
	return w.settleAllocation(ctx, n, seen, awake)
}

// awaitsSleepers says that a head is starting whose nodes are suspended: its scheduler is to find them resumed.
func (w Handlers) awaitsSleepers(ctx context.Context, n nodeView) (waits bool, err error) {
	if n.Role != protocol.Head {
		return false, nil
	}
	err = w.DB.View(ctx, func(tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, n.Cluster)
		for _, other := range nodes {
			waits = waits || other.Sleeps && other.Desired == core.Present &&
				(other.Phase == core.Pending || other.Phase == node.Booting)
		}
		return err
	})
	return waits, err
}

// headHalts waits until the scheduler has stopped: for a pause, or before the head reboots.
func (w Handlers) headHalts(n nodeView) core.Outcome {
	limit := w.provider(n).Limits.Halt
	for _, check := range n.Seen.Checks {
		if n.Seen.Boot == n.Boot && (check.Name == string(protocol.PauseHalt) || check.Name == string(protocol.PauseSleep)) {
			return n.drained(check.Text)
		}
	}
	if n.now.Sub(n.PhaseAt) > limit {
		return n.drained(fmt.Sprintf(n.scheduler.Words.HeadLate, limit))
	}
	return core.WaitFor(nodeLooks, "%s", n.scheduler.Words.HeadStops)
}
