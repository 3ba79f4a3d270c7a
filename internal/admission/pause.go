package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
	"muster/internal/noded/protocol"
	"muster/internal/place"
	"muster/internal/spec"
)

// Unpausable says why a cluster cannot be paused; nil if it can. What a head on a whole machine holds, it holds in that
// machine's memory.
func (a *Admission) Unpausable(ctx context.Context, tx *core.Tx, c cluster.Cluster) (refused, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	if c.Phase == core.Pending && c.Begins().After(now) {
		return refuse(Conflict, "not-started", "", fmt.Sprintf("cluster %s has not started: it starts at %s", c.Name,
			spec.When(c.StartsAt)), "`muster delete "+c.Name+"` cancels its reservation"), nil
	}
	at, err := a.losesHead(ctx, tx, c)
	if err != nil || at == "" {
		return nil, err
	}
	return refuse(Conflict, "head-on-metal", "head.class",
		fmt.Sprintf("the head is machine %s and keeps /home and the job queue in memory, where they would be lost", at),
		"create the cluster with its head on a service host, as in `head: {class: service}`"), nil
}

// losesHead names the machine of a cluster's head if what the head keeps would be lost with it; "" if it outlives it.
func (a *Admission) losesHead(ctx context.Context, tx *core.Tx, c cluster.Cluster) (machineID string, err error) {
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if n.Role != protocol.Head || n.MachineID == "" {
			continue
		}
		m, err := machine.Get(ctx, tx, n.MachineID)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return "", err
		}
		if err == nil && !a.caps(m.Machine).KeepsHead {
			return m.Name, nil
		}
	}
	return "", nil
}

// Resume plans the return of a paused cluster: all its nodes, under their old names, on machines that are free now, or, of
// those that sleep, where they are. The
// plan of one that is not paused has nothing in it.
func (a *Admission) Resume(ctx context.Context, tx *core.Tx, c cluster.Cluster) (*Plan, error) {
	plan := &Plan{Spec: c.Spec, current: &c}
	switch {
	case c.Desired == core.ToDelete:
		return nil, beingDeleted(c)
	case c.Desired == core.Present:
		return plan, nil
	case c.Phase != cluster.Paused:
		return nil, refuse(Conflict, "still-pausing", "", fmt.Sprintf("cluster %s is still pausing: %s", c.Name, c.Reason),
			"resume it when it is paused; `muster pause "+c.Name+" --wait` waits until then")
	}
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return nil, err
	}
	plan.image = a.exactly(c.Spec.Image, c.Image)
	wanted := c
	wanted.Desired = core.Present
	shape := shapeOf(wanted, nodes)
	var missing []member
	plan.release = shape.release
	for _, n := range shape.release { // the cluster's file has changed while they slept
		plan.Release = append(plan.Release, n.Name)
	}
	for _, n := range nodes {
		if n.Asleep() && n.Desired == core.Present && !slices.Contains(plan.Release, n.Name) {
			missing = append(missing, member{Name: n.Name, Role: n.Role, Queue: n.Queue, Class: n.Class,
				path: "queues[" + n.Queue + "].max", vm: n.VM, wakes: &n})
		}
	}
	// Those that sleep can wake on one host each, and come first there.
	return plan, a.place(ctx, tx, plan, append(missing, shape.missing...))
}

// noMemoryDisk says that the host on which a node sleeps cannot have it now. No other can: its memory is there.
func (m member) noMemoryDisk(machines []machine.Machine, hosts []place.Host, short *place.GuestShortage) *Refusal {
	host, why := "", ""
	for _, at := range machines {
		if at.ID == m.wakes.HostID {
			host, why = at.Name, availability(at)
		}
	}
	if len(hosts) > 0 {
		why = short.Error()
	}
	return refuse(NoCapacity, "no-capacity", m.path, fmt.Sprintf("node %s is suspended on %s, which has no room for it now: %s",
		m.Name, host, why),
		"resume it later, or discard its nodes' memory with `muster pause --on-jobs requeue`: then they can resume on any "+
			"host with room")
}

// CarryOutResume writes the plan of Resume as intent. Call it in the transaction that made the plan.
func (a *Admission) CarryOutResume(ctx context.Context, tx *core.Tx, p *Plan, by string) (cluster.Cluster, error) {
	id := p.current.ID
	if err := cluster.WantPresent(ctx, tx, id); err != nil {
		return cluster.Cluster{}, err
	}
	for _, n := range p.release {
		if err := node.WantAbsent(ctx, tx, n.ID, 0); err != nil {
			return cluster.Cluster{}, err
		}
	}
	if err := a.seat(ctx, tx, id, p.Add); err != nil {
		return cluster.Cluster{}, err
	}
	tx.Log(core.Event{Type: "cluster.requested", Project: p.Spec.Project, ClusterID: id, Cluster: p.Spec.Name,
		Text: fmt.Sprintf("resume with %s, by %s", words.Count(len(p.Add), "machine"), by)})
	return cluster.Get(ctx, tx, id)
}

func beingDeleted(c cluster.Cluster) *Refusal {
	return refuse(Conflict, "being-deleted", "name", fmt.Sprintf("cluster %s is being deleted", c.Name),
		"wait until it is deleted, then create it again")
}
