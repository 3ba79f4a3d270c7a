package nodelife

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// nodeFailed makes sure that the node cannot come back, then lets its machine be examined. The cluster fills the gap.
func (w Handlers) nodeFailed(ctx context.Context, n nodeView) core.Outcome {
	if o, removed := w.removed(ctx, n, 0); !removed {
		return o.With(n.suspect)
	}
	if o, left := n.leftFabrics(); !left {
		return o.With(n.suspect)
	}
	why := n.Reason
	if n.machine.QuarantineReason != "" {
		why = strings.TrimPrefix(n.machine.QuarantineReason, n.words()+": ")
	}
	return w.leave(n, "removed after its failure: "+why).With(func(ctx context.Context, tx *core.Tx) error {
		if n.machine.IsGuest() {
			return n.blameHost(ctx, tx)
		}
		return n.suspect(ctx, tx)
	})
}

// suspect notes at the machine of a node that has failed why it has, unless something is noted there already: while the
// node's end is waited for, its row says for what. Of a guest that is its host's to be told of.
func (n nodeView) suspect(ctx context.Context, tx *core.Tx) error {
	if n.machine.IsGuest() || n.machine.QuarantineReason != "" {
		return nil
	}
	return machine.WantQuarantine(ctx, tx, n.MachineID, n.words()+": "+n.Reason)
}

// words name the node in what is said of its machine.
func (n nodeView) words() string { return fmt.Sprintf("node %s/%s", n.cluster.Name, n.Name) }

// nodeRelease ends the node, sees that nothing of it is left, and waits until the scheduler has forgotten it, so that the next
// node of that name starts clean.
func (w Handlers) nodeRelease(ctx context.Context, n nodeView) core.Outcome {
	if o, removed := w.removed(ctx, n, 0); !removed {
		return o
	}
	if o, left := n.leftFabrics(); !left {
		return o
	}
	known := n.Role == protocol.Compute && n.Seen.Scheduler != nil && n.cluster.Desired == core.Present
	if known && n.now.Sub(n.PhaseAt) < w.provider(n).Limits.Forget {
		return core.WaitFor(nodeLooks/4, "waits for %s to forget it", n.scheduler.Title)
	}
	return w.leave(n, "nothing of it is left")
}

// removed ends the node's boots up to a number, all with 0, and proves it.
func (w Handlers) removed(ctx context.Context, n nodeView, upTo int64) (core.Outcome, bool) {
	ref := n.ref()
	if to := n.machine.Moves; to != nil {
		mover, err := w.mover(n)
		if err == nil {
			err = mover.Forget(ctx, ref, to.HostName)
		}
		if errors.Is(err, substrate.ErrUnderway) {
			return core.WaitFor(nodeLooks, "%s", err), false
		}
		if err != nil {
			return core.Retry(err), false
		}
	}
	ref.Boot = upTo
	if err := w.provider(n).Substrate.Remove(ctx, ref); errors.Is(err, substrate.ErrUnderway) {
		return core.WaitFor(nodeLooks, "%s", err), false
	} else if err != nil {
		return core.Retry(err), false
	}
	seen, err := w.provider(n).Substrate.Observe(ctx, ref)
	if err != nil {
		return core.Retry(err), false
	}
	if seen.Present {
		return core.Retry(fmt.Errorf("something of it is still there: %s", seen.Detail)), false
	}
	return core.Outcome{}, true
}

func (w Handlers) leave(n nodeView, text string) core.Outcome {
	o := n.inform(node.Gone, "%s", text)
	o.Asleep = true
	return o.With(func(ctx context.Context, tx *core.Tx) error { return node.LeaveMachine(ctx, tx, n.Node) })
}

// awaitsFiles says that the node's cluster gets its files from a snapshot first.
func (n nodeView) awaitsFiles() bool {
	return n.cluster.Snapshot != "" && n.cluster.Phase == core.Pending
}
