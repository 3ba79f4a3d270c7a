package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
	"muster/internal/place"
	"muster/internal/protocol"
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
// those that sleep, where they are. Where machines that are being prepared would do, the plan adds no node yet: those come as
// after a failure, by Refill. One that is still pausing calls the pause off, and has its own machines back.
// The plan of one that is not paused has nothing in it.
func (a *Admission) Resume(ctx context.Context, tx *core.Tx, c cluster.Cluster) (*Plan, error) {
	switch {
	case c.Desired == core.ToDelete:
		return nil, beingDeleted(c)
	case c.Desired == core.Present:
		return &Plan{Spec: c.Spec, current: &c}, nil
	case c.Phase != cluster.Paused && c.KeepsMemory:
		return nil, refuse(Conflict, "still-pausing", "",
			fmt.Sprintf("cluster %s is still being suspended: %s", c.Name, c.Reason),
			"resume it when it is paused; `muster pause "+c.Name+" --wait` waits until then")
	}
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return nil, err
	}
	var staying, kept []node.Node
	leaving := map[string]bool{}
	for _, n := range nodes {
		switch {
		case n.Stays():
			n.Desired = core.Present
			kept = append(kept, n)
			staying = append(staying, n)
		case n.Desired == core.Present:
			staying = append(staying, n)
		default:
			leaving[n.ID] = true
		}
	}
	wanted := c
	wanted.Desired = core.Present
	members, surplus := wanted.Shape(staying)
	plan := func() *Plan {
		plan := &Plan{Spec: c.Spec, current: &c, image: a.exactly(c.Spec.Image, c.Image), keep: kept}
		plan.letGo(surplus) // the cluster's file has changed while they slept
		return plan
	}
	var missing []member
	for _, n := range staying {
		if n.Asleep() && !slices.ContainsFunc(surplus, func(r node.Node) bool { return r.ID == n.ID }) {
			missing = append(missing, member{Name: n.Name, Role: n.Role, Queue: n.Queue, Class: n.Class,
				path: "queues[" + n.Queue + "].max", vm: n.VM, wakes: &n})
		}
	}
	sleepers := len(missing)
	missing = append(missing, membersOf(c.Spec, members)...) // those that sleep can wake on one host each, and come first there
	now := plan()
	if len(leaving) == 0 { // else names are not free yet
		err = a.place(ctx, tx, now, missing)
		if refused, _ := asRefusal(err); sleepers > 0 || refused == nil || refused.Kind != NoCapacity {
			return now, err
		}
	}
	soon := plan()
	soon.awaits = &awaited{leaving: leaving, machines: map[string]bool{}}
	if late := a.place(ctx, tx, soon, missing); late != nil {
		return now, cmp.Or(err, late)
	}
	soon.await()
	return soon, nil
}

// awaited is what a cluster that resumes waits for.
type awaited struct {
	leaving  map[string]bool // IDs of its nodes of before, which go
	machines map[string]bool // IDs of those that are being prepared, and of those of its nodes of before
	text     string
}

// ready are machines as they are once those that are being prepared, and those that the cluster's own nodes leave, are free. A
// machine that is suspect may turn out unfit, and a hypervisor is not given as a whole.
func (w *awaited) ready(machines []machine.Machine) []machine.Machine {
	if w == nil {
		return machines
	}
	machines = slices.Clone(machines)
	for i := range machines {
		m := &machines[i]
		left := w.leaving[m.Holder]
		switch {
		case left && m.IsGuest():
			m.Allocation = nil // what it has of its host is free then
		case m.IsGuest() || m.Hosts || m.QuarantineReason != "" || m.Desired != machine.ForService:
		case left || availability(*m) == beingPrepared:
			w.machines[m.ID] = true
			m.Phase, m.Holder = machine.Available, ""
		}
	}
	return machines
}

// await makes a plan that counts on machines that are not free one that takes none yet, and says what it waits for.
func (p *Plan) await() {
	waits := 0
	for _, placed := range p.Add {
		if p.awaits.machines[placed.Machine.ID] || placed.guest != nil && p.awaits.machines[placed.Machine.Host] {
			waits++
		}
	}
	p.awaits.text = "waits for " + words.Count(waits, "machine") + " to be prepared"
	if waits == 0 {
		p.awaits.text = "waits for " + words.Count(len(p.awaits.leaving), "node") + " of before to go"
	}
	p.Add, p.Layouts = nil, nil
	p.Messages = append(p.Messages, "it "+p.awaits.text)
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
	for _, n := range p.keep {
		if err := node.WantStay(ctx, tx, n.ID); err != nil {
			return cluster.Cluster{}, err
		}
	}
	for _, n := range p.release {
		if err := node.WantAbsent(ctx, tx, n.ID, 0); err != nil {
			return cluster.Cluster{}, err
		}
	}
	return a.finish(ctx, tx, id, p, "resume"+p.resumption(), by)
}

// finish gives a cluster its new nodes and tells what was asked for.
func (a *Admission) finish(ctx context.Context, tx *core.Tx, id string, p *Plan, text, by string) (cluster.Cluster, error) {
	if _, err := a.seat(ctx, tx, id, p.Add); err != nil {
		return cluster.Cluster{}, err
	}
	tx.Log(core.Event{Type: "cluster.requested", Project: p.Spec.Project, ClusterID: id, Cluster: p.Spec.Name,
		Text: text + ", by " + by})
	return cluster.Get(ctx, tx, id)
}

// resumption says what a resume begins with.
func (p *Plan) resumption() string {
	switch {
	case p.awaits != nil:
		return ", " + p.awaits.text
	case p.current.Phase != cluster.Paused:
		return ", the pause is called off"
	}
	return " with " + words.Count(len(p.Add), "machine")
}

func beingDeleted(c cluster.Cluster) *Refusal {
	return refuse(Conflict, "being-deleted", "name", fmt.Sprintf("cluster %s is being deleted", c.Name),
		"wait until it is deleted, then create it again")
}
