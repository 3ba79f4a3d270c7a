package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/internal/admission"
	"muster/internal/agent/protocol"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
)

// A rollout gives the nodes of a cluster, one after the other, what their cluster's file says that they boot. It is no
// operation with a state of its own: a node that is behind is told to boot anew whenever few enough are down
// (admission.Next), until none is. What was decided stands in rows, so that a crash changes nothing, and another aim
// simply makes other nodes be behind.

// rollOut says how far a rollout is, and takes it further. The cluster is not wholly ready.
func (w Deps) rollOut(c clusterView, stands string) core.Outcome {
	p, _ := admission.ProgressOf(c.Cluster, c.nodes)
	phase, text := cluster.Provisioning, fmt.Sprintf("rollout to %s: %d of %s", p.To, p.Done, words.Count(p.Total, "node"))
	if len(p.Draining) > 0 {
		text += ", waits for jobs on " + few(p.Draining)
	}
	if c.Halted() {
		phase, text = core.Degraded, stopped(c.Cluster)
	}
	return c.at(phase, text+"; "+stands, clusterLooks).With(func(ctx context.Context, tx *core.Tx) error { return w.stepRollout(ctx, tx, c.ID) })
}

// stopped is why a rollout went no further, and what its owner can do.
func stopped(c cluster.Cluster) string {
	return fmt.Sprintf("rollout stopped: %s (`muster rollout back %s`, or applying the old file, goes back; `muster rollout resume %s` goes on)", c.Rollout.Why, c.Name, c.Name)
}

// stepRollout tells the nodes whose turn it is to boot anew, and lets those go on that need not any more. It reads again
// what it decides by, since more may be down by now.
func (w Deps) stepRollout(ctx context.Context, tx *core.Tx, id string) error {
	c, err := cluster.Get(ctx, tx, id)
	if err != nil {
		return err
	}
	all, err := node.Of(ctx, tx, id)
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.Renew && (c.Halted() || !c.Behind(n)) {
			if err := node.Spare(ctx, tx, n.ID); err != nil {
				return err
			}
		}
	}
	p, _ := admission.ProgressOf(c, all)
	for _, n := range admission.Next(c, all) {
		if err := node.Renew(ctx, tx, n.ID, c.DrainFor); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "node.renewed", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Node: n.Name, Machine: n.Machine,
			Text: fmt.Sprintf("is to boot anew: rollout to %s, which %d of %s have", p.To, p.Done, words.Count(p.Total, "node"))})
	}
	return nil
}

// behind says that some node does not have what the cluster's file says, or had it and was the reason to stop.
func (c clusterView) behind() bool {
	return c.Halted() || slices.ContainsFunc(c.nodes, func(n node.Node) bool { return n.Renew || c.Behind(n) })
}

// renew takes a ready node to its next boot. A compute node's jobs end first. Those of the cluster run on while the head
// is away: the scheduler's state and /home are not on it.
func (n nodeView) renew() core.Outcome {
	if n.Role == protocol.Compute {
		return n.inform(node.Draining, "%s", n.scheduler.Words.Renews)
	}
	return n.inform(node.Draining, "%s", n.scheduler.Words.HeadRenews)
}

// drained is the end of a drain: the node goes, or boots anew.
func (n nodeView) drained(why string) core.Outcome {
	if n.Desired == core.Present {
		return n.inform(node.Attaching, "%s; boots anew on its machine", why)
	}
	return n.inform(core.Releasing, "%s", why)
}

// endOldBoot takes away all of the boot that a renewed node had, as at a node's end, but keeps node and machine: the same
// tenant goes on. That a boot was there is not forgotten, lest a controller that was left behind bring it back. The scheduler has to forget the node too, so that it comes back clean.
func (w Deps) endOldBoot(ctx context.Context, n nodeView) (core.Outcome, bool) {
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
		first, err := cluster.StopRollout(ctx, tx, c.ID, c.Rollout.Aim, fmt.Sprintf("%s did not come up with image %s: %s", n.Name, c.Spec.Image, strings.TrimSpace(o.Text)))
		if err != nil || !first {
			return err
		}
		fresh, err := cluster.Get(ctx, tx, c.ID)
		if err == nil {
			tx.Log(core.Event{Type: "cluster.rollout", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Text: stopped(fresh)})
		}
		return err
	})
}
