package api

import (
	"context"
	"math"
	"slices"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/place"
	"muster/internal/protocol"
)

func planView(p *admission.Plan) apiv1.Plan {
	view := apiv1.Plan{Changes: p.Changes, Messages: p.Messages, Release: p.Release, Spec: p.Spec,
		Price: p.Price.String(), Total: p.Total.String(),
		FitsAt: p.FitsAt, Layouts: each(p.Layouts, layoutView),
		Steps: some(each(p.Steps, func(s admission.Step) apiv1.Step { return apiv1.Step(s) })),
		Add: some(each(p.Add, func(n admission.Placed) apiv1.Placed {
			return apiv1.Placed{Node: n.Name, Queue: n.Queue, Class: n.Class, Machine: n.Machine.Name}
		}))}
	view.Changes, view.Messages, view.Release = some(view.Changes), some(view.Messages), some(view.Release)
	return view
}

func layoutView(l admission.Layout) apiv1.Layout {
	return apiv1.Layout{Queue: l.Queue, Fabric: l.Fabric, Hops: l.Hops, MeanHops: math.Round(l.Mean*1000) / 1000,
		Unknown: l.Unknown, Text: l.String(), Leaves: some(each(l.Places, func(part place.Part) apiv1.LeafPart {
			return apiv1.LeafPart{Leaf: part.Place, Nodes: part.Nodes, Cables: part.Up}
		}))}
}

// readyIn is how long nodes of the classes that a plan adds have taken.
func readyIn(ctx context.Context, tx *core.Tx, p *admission.Plan) (*apiv1.ReadyIn, error) {
	var classes []string
	for _, n := range p.Add {
		if !slices.Contains(classes, n.Class) {
			classes = append(classes, n.Class)
		}
	}
	if len(classes) == 0 {
		return nil, nil
	}
	waits, err := node.Waits(ctx, tx, classes, 100)
	if err != nil || len(waits) == 0 {
		return nil, err
	}
	at := func(part float64) float64 { return waits[int(math.Round(part*float64(len(waits)-1)))].Seconds() }
	return &apiv1.ReadyIn{Low: at(0.1), High: at(0.9), Nodes: len(waits)}, nil
}

// some is the list, empty rather than null in JSON.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// instant is a time; nil: there is none.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
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
			Role:      apiv1.NodeRole(n.Role),
			Queue:     n.Queue,
			Class:     n.Class,
			Machine:   n.Machine,
			Leaf:      n.Leaf,
			Address:   substrate.Address(n.Slot).Addr().String(),
			Phase:     apiv1.Phase(n.Phase),
			Reason:    n.Reason,
			Since:     n.PhaseAt,
			Seen:      n.Seen.At,
			Checks:    each(n.Seen.Checks, checkView),
			Unapplied: each(n.Seen.Undone, func(u protocol.Undone) apiv1.Unapplied { return apiv1.Unapplied(u) }),
			Facts:     nodeFactsView(n.Seen.Facts),
			Scheduler: schedulerView(n.Seen.Scheduler),
		})
	}
	view.Waiting = waitingView(a.Admission.Schedulers.Of(c.Spec.Scheduler()).Title, c, nodes)
	view.Rollout = rolloutView(c, nodes)
	view.Apps = a.appsView(c)
	keys, err := fabrics.KeysOf(ctx, tx, c.ID)
	if err != nil {
		return view, err
	}
	view.Keys = each(keys, func(k fabrics.ClusterKey) apiv1.ClusterKey {
		return apiv1.ClusterKey{Fabric: k.Fabric, Key: k.Key.String(), Ports: k.Ports}
	})
	return view, a.money(ctx, tx, &view)
}

// each is lists.Map for answers: of an empty list it makes an empty one and of nil nil, which JSON tells apart.
func each[T, View any](list []T, view func(T) View) []View {
	if list == nil {
		return nil
	}
	views := make([]View, len(list))
	for i, item := range list {
		views[i] = view(item)
	}
	return views
}

func checkView(c protocol.Check) apiv1.Check { return apiv1.Check(c) }

func nodeFactsView(f protocol.NodeFacts) apiv1.NodeFacts {
	return apiv1.NodeFacts{Arch: f.Arch, Kernel: f.Kernel, CPUs: f.CPUs, MemoryMiB: f.MemoryMiB, Virtual: f.Virtual,
		GPUs:  each(f.GPUs, func(g protocol.GPUFacts) apiv1.GPUFacts { return apiv1.GPUFacts(g) }),
		Ports: each(f.Ports, func(p protocol.Port) apiv1.Port { return apiv1.Port(p) })}
}

// schedulerView is what the scheduler says of a node; nil: it does not know the node.
func schedulerView(s *protocol.NodeState) *apiv1.NodeState {
	if s == nil {
		return nil
	}
	return &apiv1.NodeState{Name: s.Name, State: apiv1.SchedulerState(s.State), Responding: s.Responding, Jobs: s.Jobs,
		LastBusy: s.LastBusy, Reason: s.Reason, Raw: s.Raw, Reboots: s.Reboots, Size: apiv1.Size(s.Size)}
}

func factsView(f inventory.Facts) apiv1.Facts {
	layout, _ := f.Layout.MarshalText() // it was read from what this writes
	return apiv1.Facts{Host: f.Host, Arch: f.Arch, CPUModel: f.CPUModel, CPUs: f.CPUs, Cores: f.Cores, Sockets: f.Sockets,
		MemoryMiB: f.MemoryMiB, Kernel: f.Kernel, Layout: string(layout), System: apiv1.System(f.System), BMC: f.BMC,
		TriadGBs: f.TriadGBs, CPUMops: f.CPUMops,
		NUMA: each(f.NUMA, func(n inventory.NUMANode) apiv1.NUMANode {
			return apiv1.NUMANode{ID: n.ID, CPUs: n.CPUs, MemoryMiB: n.MemoryMiB, Distances: n.Distances,
				HugePages: each(n.HugePages, func(p inventory.HugePages) apiv1.HugePages { return apiv1.HugePages(p) })}
		}),
		DIMMs:   each(f.DIMMs, func(d inventory.DIMM) apiv1.DIMM { return apiv1.DIMM(d) }),
		Disks:   each(f.Disks, func(d inventory.Disk) apiv1.Disk { return apiv1.Disk(d) }),
		NICs:    each(f.NICs, func(n inventory.NIC) apiv1.NIC { return apiv1.NIC(n) }),
		Devices: each(f.Devices, func(d inventory.Device) apiv1.Device { return apiv1.Device(d) })}
}

func releaseView(r machine.Release) apiv1.Release {
	return apiv1.Release{From: r.From, At: r.At, Power: r.Power, Clean: r.Clean, Boot: r.Boot, Key: r.Key,
		Disks: each(r.Disks, func(d protocol.Erased) apiv1.Erased {
			return apiv1.Erased{Disk: d.Disk, Model: d.Model, Serial: d.Serial, Bytes: d.Bytes, Method: d.Method, Tried: d.Tried,
				Verified: d.Verified, OK: d.OK, Error: d.Error, Seconds: seconds(d.Took)}
		})}
}

// receiptView is the proof of a cluster's end; nil before it.
func receiptView(r *cluster.Receipt) *apiv1.Receipt {
	if r == nil {
		return nil
	}
	return &apiv1.Receipt{Machines: some(r.Machines), Seconds: r.Seconds, At: r.At,
		Released: each(r.Released, func(m cluster.Released) apiv1.Released {
			return apiv1.Released{Machine: m.Machine, Release: releaseView(m.Release)}
		}),
		Guests: each(r.Guests, func(g host.GuestEnd) apiv1.GuestEnd { return apiv1.GuestEnd(g) })}
}

// partView is what a guest holds of its host; nil if the machine is none.
func partView(m machine.Machine) *apiv1.Part {
	if !m.IsGuest() {
		return nil
	}
	p := &apiv1.Part{Host: m.HostName, Cells: []apiv1.Cell{}, Share: 1}
	if h := m.Allocation; h != nil {
		p.Cells, p.Devices, p.Share = each(h.Cells, func(c place.Cell) apiv1.Cell { return apiv1.Cell(c) }), h.Devices, h.Share
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
	view.Facts = factsView(m.Facts)
	if m.Release != nil {
		view.Release = new(releaseView(*m.Release))
	}
	return view
}

// listedView is a machine in a list.
func (a *API) listedView(m machine.Listed) apiv1.Machine {
	view := apiv1.Machine{
		Part: partView(m.Machine), Drains: m.Drains, Name: m.Name, Substrate: m.Substrate, Network: m.Network, MACs: m.MACs,
		SwitchPorts: m.Ports, Power: m.Power.Control, Desired: apiv1.Desired(m.Desired), Phase: apiv1.Phase(m.Phase),
		Reason: m.Reason, Since: m.PhaseAt, Node: m.HolderName, Summary: apiv1.Summary(m.Summary), Classes: []string{},
	}
	if m.Location.Rack != "" {
		view.Location = (*apiv1.Location)(&m.Location)
	}
	for _, class := range a.Admission.Catalogue.Classes {
		if class.Selects(m.Machine.Machine, m.Summary) {
			view.Classes = append(view.Classes, class.Name)
		}
	}
	return view
}
