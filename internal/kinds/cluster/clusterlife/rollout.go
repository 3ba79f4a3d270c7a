package clusterlife

import (
	"context"
	"fmt"
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
)

// A rollout gives the nodes of a cluster, one after the other, what their cluster's file says that they boot. It is no
// operation with a state of its own: a node that is behind is told to reboot whenever few enough are down
// (Cluster.NextToReboot), until none is. What was decided stands in rows, so that a crash changes nothing, and another aim
// simply makes other nodes be behind.

// rollOut says how far a rollout is, and takes it further. The cluster is not wholly ready.
func (w Handlers) rollOut(c clusterView, stands string) core.Outcome {
	p, _ := c.Progress(c.nodes)
	phase, text := cluster.Provisioning, fmt.Sprintf("rollout to %s: %d of %s", p.To, p.Done, words.Count(p.Total, "node"))
	if len(p.Draining) > 0 {
		text += ", waits for jobs on " + words.Few(p.Draining)
	}
	if c.Halted() {
		phase, text = core.Degraded, life.Stopped(c.Cluster)
	}
	return c.at(phase, text+"; "+stands, clusterLooks).With(func(ctx context.Context, tx *core.Tx) error {
		return w.stepRollout(ctx, tx, c.ID)
	})
}

// stepRollout tells the nodes whose turn it is to reboot, and lets those go on that need not any more. It reads again
// what it decides by, since more may be down by now.
func (w Handlers) stepRollout(ctx context.Context, tx *core.Tx, id string) error {
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
	p, _ := c.Progress(all)
	for _, n := range c.NextToReboot(all) {
		if err := node.Renew(ctx, tx, n.ID, c.DrainFor); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "node.renewed", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Node: n.Name,
			Machine: n.Machine,
			Text: fmt.Sprintf("will be rebooted: rollout to %s, which %d of %s have", p.To, p.Done,
				words.Count(p.Total, "node"))})
	}
	return nil
}

// behind says that some node does not have what the cluster's file says, or had it and was the reason to stop. One that reboots
// for another reason has it.
func (c clusterView) behind() bool {
	return c.Halted() || slices.ContainsFunc(c.nodes, func(n node.Node) bool {
		return n.Renew && n.Phase != node.Attaching || c.Behind(n)
	})
}
