package api

import (
	"context"
	"math"
	"slices"

	"muster/internal/admission"
	"muster/internal/apiv1"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/place"
)

func planView(p *admission.Plan) apiv1.Plan {
	view := apiv1.Plan{Changes: p.Changes, Messages: p.Messages, Release: p.Release, Spec: p.Spec, Price: p.Price.String(),
		FitsAt: p.FitsAt, Add: []apiv1.Placed{}}
	for _, n := range p.Add {
		view.Add = append(view.Add, apiv1.Placed{Node: n.Name, Queue: n.Queue, Class: n.Class, Machine: n.Machine.Name})
	}
	for _, l := range p.Layouts {
		lay := apiv1.Layout{Queue: l.Queue, Fabric: l.Fabric, Leaves: []apiv1.LeafPart{}, Hops: l.Hops,
			MeanHops: math.Round(l.Mean*1000) / 1000, Unknown: l.Unknown, Text: l.String()}
		for _, part := range l.Places {
			lay.Leaves = append(lay.Leaves, apiv1.LeafPart{Leaf: part.Place, Nodes: part.Nodes, Cables: part.Up})
		}
		view.Layouts = append(view.Layouts, lay)
	}
	view.Steps = stepsView(p.Steps)
	view.Changes, view.Messages, view.Release = some(view.Changes), some(view.Messages), some(view.Release)
	return view
}

// some is the list, empty rather than null in JSON.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// clusterView reads a cluster's nodes beside it.
func (a *API) clusterView(ctx context.Context, tx *core.Tx, c cluster.Cluster) (apiv1.Cluster, error) {
	view := apiv1.Cluster{
		ID: c.ID, Name: c.Name, Project: c.Project, Phase: apiv1.Phase(c.Phase), Reason: c.Reason, Lacks: c.Short,
		Since:      c.PhaseAt,
		Generation: c.Generation, Reached: c.Reached, Image: c.Image, Spec: c.Spec, CreatedAt: c.CreatedAt,
		CreatedBy: c.CreatedBy,
		Nodes:     []apiv1.Node{}, Receipt: receiptView(c.Receipt), Desired: apiv1.Desired(c.Desired), Lease: leaseView(c),
	}
	if c.Phase == cluster.Paused {
		view.Held = c.Held
	}
	if a.HomeUsage != nil && c.Phase != core.Deleted {
		if size, used, err := a.HomeUsage(ctx, c.ID); err == nil && size > 0 { // it is no reason to refuse the rest
			view.Home = &apiv1.HomeUsage{Size: size, Used: used}
		}
	}
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return view, err
	}
	guests := map[string]machine.Machine{}
	if slices.ContainsFunc(nodes, func(n node.Node) bool { return n.IsGuest() }) {
		if guests, err = host.GuestsIn(ctx, tx, c.ID); err != nil {
			return view, err
		}
	}
	for _, n := range nodes {
		view.Nodes = append(view.Nodes, apiv1.Node{
			Part:      partView(guests[n.MachineID]),
			ID:        n.ID,
			Name:      n.Name,
			Role:      n.Role,
			Queue:     n.Queue,
			Class:     n.Class,
			Machine:   n.Machine,
			Leaf:      n.Leaf,
			Address:   substrate.Address(n.Slot).Addr().String(),
			Phase:     apiv1.Phase(n.Phase),
			Reason:    n.Reason,
			Since:     n.PhaseAt,
			Seen:      n.Seen.At,
			Checks:    n.Seen.Checks,
			Undone:    n.Seen.Undone,
			Facts:     n.Seen.Facts,
			Scheduler: n.Seen.Scheduler,
			Slurm:     slurmAlias(n.Seen.Scheduler),
		})
	}
	view.Waiting = waitingView(a.Admission.Schedulers.Of(c.Spec.Scheduler()).Title, c, nodes)
	view.Rollout = rolloutView(c, nodes)
	view.Apps = a.appsView(c)
	keys, err := fabrics.KeysOf(ctx, tx, c.ID)
	if err != nil {
		return view, err
	}
	for _, k := range keys {
		view.Keys = append(view.Keys, apiv1.ClusterKey(k))
	}
	return view, a.money(ctx, tx, &view)
}

// receiptView is the proof of a cluster's end; nil before it.
func receiptView(r *cluster.Receipt) *apiv1.Receipt {
	if r == nil {
		return nil
	}
	view := &apiv1.Receipt{Machines: r.Machines, Seconds: r.Seconds, At: r.At}
	for _, m := range r.Released {
		view.Released = append(view.Released, apiv1.Released{Machine: m.Machine, Release: apiv1.Release(m.Release)})
	}
	for _, g := range r.Guests {
		view.Guests = append(view.Guests, apiv1.GuestEnd(g))
	}
	return view
}

// partView is what a guest holds of its host; nil if the machine is none.
func partView(m machine.Machine) *apiv1.Part {
	if !m.IsGuest() {
		return nil
	}
	p := &apiv1.Part{Host: m.HostName, Cells: []place.Cell{}, Share: 1}
	if h := m.Allocation; h != nil {
		p.Cells, p.Devices, p.Share = h.Cells, h.Devices, h.Share
	}
	if m.Moves != nil {
		p.MovesTo = m.Moves.HostName
	}
	return p
}

// shareView is what is held of a machine by guests, which are among those given; nil if it holds none.
func shareView(m machine.Machine, guests []machine.Machine) *apiv1.Hosting {
	if !m.Hosts {
		return nil
	}
	s := admission.ShareOf(m, guests)
	view := &apiv1.Hosting{Guests: []string{}, Cores: s.Cores, OfCores: s.OfCores, MemoryMiB: s.MemoryMiB, OfMemoryMiB: s.OfMiB,
		Devices: s.Devices, OfDevices: s.OfDevices}
	for _, g := range guests {
		if g.Host == m.ID {
			view.Guests = append(view.Guests, g.Name)
		}
	}
	return view
}

// byHost are the guests among machines by their hosts' IDs, those included that are on their way there.
func byHost(machines []machine.Listed) map[string][]machine.Machine {
	guests := map[string][]machine.Machine{}
	for _, l := range machines {
		m := l.Machine
		if m.IsGuest() {
			guests[m.Host] = append(guests[m.Host], m)
		}
		if m.Moves != nil {
			guests[m.Moves.Host] = append(guests[m.Moves.Host], m)
		}
	}
	return guests
}

func (a *API) machineView(m machine.Machine) apiv1.Machine {
	view := a.listedView(machine.Listed{Machine: m, Summary: m.Facts.Summary()})
	view.Facts, view.Release = m.Facts, (*apiv1.Release)(m.Release)
	return view
}

// listedView is a machine in a list.
func (a *API) listedView(m machine.Listed) apiv1.Machine {
	view := apiv1.Machine{
		Part: partView(m.Machine), Drains: m.Drains, Name: m.Name, Substrate: m.Substrate, Network: m.Network, MACs: m.MACs,
		SwitchPorts: m.Ports, Power: m.Power.Control, Desired: apiv1.Desired(m.Desired), Phase: apiv1.Phase(m.Phase),
		Reason: m.Reason, Since: m.PhaseAt, Node: m.HolderName, Summary: m.Summary, Classes: []string{},
	}
	for _, class := range a.Admission.Catalogue.Classes {
		if class.Selects(m.Machine.Machine, m.Summary) {
			view.Classes = append(view.Classes, class.Name)
		}
	}
	return view
}
