package nodelife

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

// A host that is drained loses its guests, each by itself, and its nodes' handlers see to it. A guest without devices moves to
// another host while it runs: where to is written first, and what it holds there; then it moves; then its rows do. Its
// node is ready all the time. A guest with devices is replaced on another host, as a node that is no longer wanted, and its
// jobs end first.

// moveAgain is how long a guest that could not move waits until it tries again.
const moveAgain = time.Minute

// roomLooks is how often a guest that has to leave its host and cannot looks for room elsewhere: each look is at every host.
const roomLooks = 30 * time.Second

// leaveHost finds a node that is ready a place on another host than its own, which is to be empty.
func (w Handlers) leaveHost(ctx context.Context, n nodeView) core.Outcome {
	mover := w.provider(n).Mover
	reaches := func(to machine.Machine) bool { // from one kind of host to the other nothing leads
		return to.HostsOnDemand() == n.host.HostsOnDemand() && (!to.HostsOnDemand() || to.Phase == machine.InUse) &&
			mover.Reaches(to.Name)
	}
	var cannot, none string // why it cannot move, and why nothing else can take its place either
	err := w.DB.View(ctx, func(tx *core.Tx) (err error) {
		switch {
		case n.machine.Allocation != nil && len(n.machine.Allocation.Devices) > 0:
			cannot = "a guest with devices cannot move"
		case mover == nil || !mover.Reaches(n.host.Name):
			cannot = "guests cannot move from there"
		default:
			_, cannot, err = w.Admission.Elsewhere(ctx, tx, n.Node, reaches)
		}
		if err == nil && cannot != "" {
			_, none, err = w.Admission.Elsewhere(ctx, tx, n.Node, nil)
		}
		return err
	})
	switch {
	case err != nil:
		return core.Retry(err)
	case none != "":
		return core.WaitFor(roomLooks, "%s is being drained, and it stays: %s", n.host.Name, none)
	case cannot != "":
		return core.WaitFor(nodeLooks, "is replaced on another host").With(func(ctx context.Context, tx *core.Tx) error {
			n.tell(tx, "node.replaced", fmt.Sprintf("is replaced when its jobs have ended: its host %s is being drained, and %s",
				n.host.Name, cannot))
			tx.Wake(cluster.Kind, n.Cluster)
			return node.WantAbsent(ctx, tx, n.ID, n.cluster.DrainFor)
		})
	}
	return core.WaitFor(time.Millisecond, "moves to another host").With(func(ctx context.Context, tx *core.Tx) error {
		// It may be another one by now than a moment ago, or none: then the next look says why.
		to, why, err := w.Admission.Elsewhere(ctx, tx, n.Node, reaches)
		if err != nil || why != "" {
			return err
		}
		h, err := machine.Get(ctx, tx, to.Machine.Host)
		if err != nil {
			return err
		}
		n.tell(tx, "node.moving", fmt.Sprintf("moves from %s to %s while it runs", n.host.Name, h.Name))
		return host.StartMove(ctx, tx, to)
	})
}

// mover is what has begun to move a guest. Another controller, on a host that holds guests, may have begun it, and this one have
// none.
func (w Handlers) mover(n nodeView) (substrate.Mover, error) {
	mover := w.provider(n).Mover
	if mover == nil {
		return nil, fmt.Errorf("it was on its way to %s, and this controller moves no guests", n.machine.Moves.HostName)
	}
	return mover, nil
}

// move brings a guest to the host that was chosen, however far it has come already.
func (w Handlers) move(ctx context.Context, n nodeView) core.Outcome {
	to := *n.machine.Moves
	mover, err := w.mover(n)
	if err != nil {
		return core.Retry(err)
	}
	described := w.describe(n)
	described.Allocation = &to.Allocation
	limited, cancel := context.WithTimeout(ctx, w.provider(n).Limits.Move)
	defer cancel()
	began := time.Now()
	err = mover.Move(limited, described, n.host.Name, to.HostName)
	switch {
	case errors.Is(err, substrate.ErrUnderway): // it goes on without this handler, and a report wakes the next
		return core.WaitFor(nodeLooks, "moves to %s: %v", to.HostName, err)
	case errors.Is(err, substrate.ErrStays):
		return core.WaitFor(moveAgain, "could not move to %s: %v", to.HostName, err).
			With(func(ctx context.Context, tx *core.Tx) error {
				n.tell(tx, "node.stays", fmt.Sprintf("could not move from %s to %s: %v", n.host.Name, to.HostName, err))
				return host.CallOffMove(ctx, tx, n.MachineID)
			})
	case errors.Is(err, substrate.ErrEnded):
		return n.fail("it ended on its way from %s to %s: %v", n.host.Name, to.HostName, err).Because(life.CauseStopped)
	case err != nil:
		return core.Retry(err)
	}
	return core.WaitFor(time.Millisecond, "has moved to %s", to.HostName).With(func(ctx context.Context, tx *core.Tx) error {
		if err := cluster.LockAdmission(ctx, tx); err != nil { // placement of guests sees it at one of its hosts
			return err
		}
		h, err := machine.Get(ctx, tx, to.Host)
		if err != nil {
			return err
		}
		g := host.Guest{Machine: n.machine.Machine, Allocation: to.Allocation}
		g.Machine.Host, g.Facts = h.ID, host.PartFacts(h.Facts, to.Allocation, n.machine.Facts.CPUs,
			n.machine.Facts.MemoryMiB)
		n.tell(tx, "node.moved", fmt.Sprintf("has moved from %s to %s in %.1f s", n.host.Name, to.HostName,
			(n.now.Sub(to.Since)+time.Since(began)).Seconds()))
		tx.Wake(machine.Kind, n.host.ID)
		if err := host.EndMove(ctx, tx, g); err != nil {
			return err
		}
		return cluster.Inform(ctx, tx, n.Cluster)
	})
}

// tell logs what happens to a node without a change of its phase.
func (n nodeView) tell(tx *core.Tx, what, text string) {
	tx.Log(core.Event{Type: what, Project: n.cluster.Project, ClusterID: n.Cluster, Cluster: n.cluster.Name, Node: n.Name,
		Machine: n.machine.Name, Text: text})
}
