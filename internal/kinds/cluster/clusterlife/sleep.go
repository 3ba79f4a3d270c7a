package clusterlife

import (
	"context"
	"fmt"

	"muster/internal/core"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

// cannotSleep says why a cluster cannot keep its nodes' memory, never or not yet; both are "" if it can.
func (w Handlers) cannotSleep(ctx context.Context, tx *core.Tx, c clusterView) (never, yet string, err error) {
	for _, n := range c.nodes {
		if n.Phase != core.Ready || n.Desired == node.Absent || n.Renew {
			yet = fmt.Sprintf("node %s is %s", n.Name, n.Phase)
			if n.Phase == core.Ready {
				yet = fmt.Sprintf("node %s is about to go", n.Name)
			}
		}
		if n.Role == protocol.Head {
			continue
		}
		m, err := machine.Get(ctx, tx, n.MachineID)
		if err != nil {
			return "", "", err
		}
		if !w.Providers[m.Substrate].Caps.Sleeps {
			return fmt.Sprintf("node %s is not a virtual machine", n.Name), "", nil
		}
		sleeper := w.Providers[m.Substrate].Sleeper
		switch {
		case sleeper == nil || !sleeper.CanSuspend(m.HostName):
			return fmt.Sprintf("node %s is on %s, whose guests cannot be suspended", n.Name, m.HostName), "", nil
		case m.Allocation != nil && len(m.Allocation.Devices) > 0:
			return fmt.Sprintf("node %s has devices of its host, whose state cannot be saved", n.Name), "", nil
		case m.Moves != nil:
			yet = fmt.Sprintf("node %s moves to another host", n.Name)
		}
	}
	return "", yet, nil
}

// suspend takes a pause that keeps memory a step further, as long as there is a head, or one of the nodes is awake that are to
// sleep.
func (c clusterView) suspend(head *node.Node, awake []node.Node) core.Outcome {
	switch {
	case head != nil && head.Desired == core.Present:
		return core.WaitFor(clusterLooks, "stops the scheduler").With(func(ctx context.Context, tx *core.Tx) error {
			return node.WantAbsent(ctx, tx, head.ID, 0)
		})
	case head != nil:
		return core.WaitFor(clusterLooks, "gives the head back, once it has saved its state")
	}
	names := lists.Map(awake, func(n node.Node) string { return n.Name })
	outcome := core.WaitFor(clusterLooks, "%s to be suspended: %s", words.Count(len(awake), "node"), words.Few(names))
	for _, n := range awake {
		if !n.Sleeps {
			outcome = outcome.With(func(ctx context.Context, tx *core.Tx) error { return node.PutToSleep(ctx, tx, n.ID) })
		}
	}
	return outcome
}

// asleep counts the suspended nodes.
func (c clusterView) asleep() int {
	count := 0
	for _, n := range c.nodes {
		if n.Asleep() {
			count++
		}
	}
	return count
}
