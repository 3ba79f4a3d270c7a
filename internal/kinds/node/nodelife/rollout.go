package nodelife

import (
	"context"
	"fmt"
	"strings"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// renew takes a ready node to its next boot. A compute node's jobs end first. Those of the cluster run on while the head
// is away: the scheduler's state and /home are not on it.
func (n nodeView) renew() core.Outcome {
	if n.Role == protocol.Compute {
		return n.inform(node.Draining, "%s", n.scheduler.Words.Renews)
	}
	return n.inform(node.Draining, "%s", n.scheduler.Words.HeadRenews)
}

// reboot is for a node whose scheduler was told to reboot it, and has waited for its jobs: the same node, on its own machine,
// with what its cluster boots.
func (n nodeView) reboot() core.Outcome {
	return n.inform(node.Attaching, "%s has it reboot", n.scheduler.Title).With(func(ctx context.Context, tx *core.Tx) error {
		return node.Reboot(ctx, tx, n.ID)
	})
}

// drained is the end of a drain: the node goes, or reboots.
func (n nodeView) drained(why string) core.Outcome {
	if n.Desired == core.Present {
		return n.inform(node.Attaching, "%s; reboots on its machine", why)
	}
	return n.inform(core.Releasing, "%s", why)
}

// endOldBoot takes away all of the boot that a renewed node had, as at a node's end, but keeps node and machine: the same
// tenant goes on. That a boot was there is not forgotten, lest a controller that was left behind bring it back. The scheduler has
// to forget the node too, so that it comes back clean.
func (w Handlers) endOldBoot(ctx context.Context, n nodeView) (core.Outcome, bool) {
	if o, removed := w.removed(ctx, n, n.Boot); !removed {
		return o, false
	}
	if n.Role == protocol.Compute && n.Seen.Scheduler != nil && n.now.Sub(n.PhaseAt) < w.provider(n).Limits.Forget {
		return core.WaitFor(nodeLooks/4, "waits for %s to forget its old boot", n.scheduler.Title), false
	}
	return core.Outcome{}, true
}

// stopsRollout adds to a node's failure that the rollout goes no further, where the node failed to come up with what is
// being rolled out: others would follow it. What fails later in a node's life is the machine's fault more often than the
// image's.
func (n nodeView) stopsRollout(o core.Outcome) core.Outcome {
	c := n.cluster
	coming := n.Phase == node.Booting || n.Phase == node.Joining || n.Phase == node.Testing
	if !coming || n.Has(c.Rollout.Good) || !n.Has(c.Root()) {
		return o
	}
	return o.With(func(ctx context.Context, tx *core.Tx) error {
		first, err := cluster.StopRollout(ctx, tx, c.ID, c.Rollout.Aim,
			fmt.Sprintf("%s did not come up with image %s: %s", n.Name, c.Spec.Image, strings.TrimSpace(o.Text)))
		if err != nil || !first {
			return err
		}
		fresh, err := cluster.Get(ctx, tx, c.ID)
		if err == nil {
			tx.Log(core.Event{Type: "cluster.rollout", Project: c.Project, ClusterID: c.ID, Cluster: c.Name,
				Text: life.Stopped(fresh)})
		}
		return err
	})
}
