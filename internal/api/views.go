package api

import (
	"context"
	"math"
	"slices"
	"time"

	"muster/internal/admission"
	"muster/internal/agent/protocol"
	"muster/internal/inventory"
	"muster/internal/placement"
	"muster/internal/spec"
	"muster/internal/store"
	"muster/internal/substrate"
)

// Cluster is a cluster as users see it.
type Cluster struct {
	ID         string             `json:"id" doc:"for life"`
	Name       string             `json:"name"`
	Project    string             `json:"project"`
	Phase      store.Phase        `json:"phase" enum:"pending,provisioning,ready,degraded,pausing,paused,resuming,deleting,deleted"`
	Desired    store.Desired      `json:"desired" enum:"present,paused,deleted" doc:"what is wanted of it"`
	Reason     string             `json:"reason,omitempty" doc:"why it is in this phase, or what it waits for"`
	Held       int64              `json:"held,omitempty" doc:"bytes of /home and state that a paused cluster takes"`
	Home       *HomeUsage         `json:"home,omitempty" doc:"how full /home is; absent where that is not known"`
	Lacks      string             `json:"lacks,omitempty" doc:"why missing nodes cannot come now"`
	Since      time.Time          `json:"since" doc:"when the phase began"`
	Rollout    *Rollout           `json:"rollout,omitempty" doc:"while nodes do not boot what the spec says"`
	Generation int64              `json:"generation" doc:"of the spec; every accepted change adds one"`
	Reached    int64              `json:"reached" doc:"the newest generation that was wholly ready"`
	Image      string             `json:"image" doc:"digest"`
	Spec       spec.Cluster       `json:"spec" doc:"resolved: every default filled in"`
	Lease      Term               `json:"lease"`
	Price      string             `json:"price,omitempty" doc:"per hour when all its nodes are ready, where the site has prices"`
	Cost       string             `json:"cost,omitempty" doc:"charged so far"`
	PerHour    string             `json:"per_hour,omitempty" doc:"charged now"`
	Limits     []Limit            `json:"limits,omitempty" doc:"its own budget"`
	CreatedAt  time.Time          `json:"created_at"`
	CreatedBy  string             `json:"created_by"`
	Nodes      []Node             `json:"nodes" doc:"those not gone, the head first"`
	Keys       []store.ClusterKey `json:"keys,omitempty" doc:"its partitions on InfiniBand fabrics"`
	Apps       []WebApp           `json:"apps,omitempty" doc:"its web apps"`
	Waiting    *Waiting           `json:"waiting,omitempty" doc:"jobs that wait; absent if none does"`
	Receipt    *store.Receipt     `json:"receipt,omitempty" doc:"proof of its end, once deleted"`
}

// HomeUsage is how full a cluster's /home is, in bytes.
type HomeUsage struct {
	Size int64 `json:"size" doc:"bytes that it may hold"`
	Used int64 `json:"used" doc:"bytes that it holds"`
}

// Node is a member of a cluster.
type Node struct {
	ID      string             `json:"id"`
	Name    string             `json:"name"`
	Role    protocol.Role      `json:"role" enum:"head,compute"`
	Queue   string             `json:"queue,omitempty"`
	Class   string             `json:"class"`
	Machine string             `json:"machine"`
	Leaf    string             `json:"leaf,omitempty" doc:"the switch that its machine hangs on, as known when it was chosen"`
	Part    *Part              `json:"part,omitempty" doc:"of a guest: what it holds of its host"`
	Address string             `json:"address" doc:"on the cluster's own network"`
	Phase   store.Phase        `json:"phase" enum:"pending,attaching,booting,joining,testing,ready,draining,failed,releasing,gone"`
	Reason  string             `json:"reason,omitempty"`
	Since   time.Time          `json:"since"`
	Seen    time.Time          `json:"seen,omitzero" doc:"last report of its agent"`
	Checks  []protocol.Check   `json:"checks,omitempty"`
	Facts   protocol.NodeFacts `json:"facts" doc:"as the node finds itself from inside"`
	// Scheduler and Slurm say the same; only the first has words that mean the same of every scheduler.
	Scheduler *protocol.NodeState `json:"scheduler,omitempty" doc:"what the cluster's scheduler says of it"`
	Slurm     *SlurmNode          `json:"slurm,omitempty" deprecated:"true" doc:"as scheduler, in older words"`
}

// Machine is one physical or simulated host.
type Machine struct {
	Name        string          `json:"name"`
	Substrate   string          `json:"substrate"`
	Network     string          `json:"network,omitempty" doc:"that it boots from"`
	MACs        []string        `json:"macs,omitempty"`
	SwitchPorts []string        `json:"switch_ports,omitempty" doc:"of the network's switch, one for each of macs"`
	Power       string          `json:"power,omitempty" doc:"how it is switched"`
	Release     *store.Release  `json:"release,omitempty" doc:"proof of the last time that it was given back"`
	Desired     store.Desired   `json:"desired" enum:"service,maintenance,removed" doc:"what is wanted of it when it is free"`
	Phase       store.Phase     `json:"phase" enum:"enrolled,inspecting,available,reserved,in-use,releasing,maintenance,quarantined,removed"`
	Reason      string          `json:"reason,omitempty"`
	Since       time.Time       `json:"since"`
	Node        string          `json:"node,omitempty" doc:"cluster/node that has it"`
	Classes     []string        `json:"classes"`
	Facts       inventory.Facts `json:"facts"`
	Ports       []MachinePort   `json:"ports,omitempty" doc:"on InfiniBand fabrics; of one machine alone, not in lists"`
	Drains      bool            `json:"drains,omitempty" doc:"of a hypervisor: its guests are to go elsewhere"`
	Hosts       *Hosting        `json:"hosts,omitempty" doc:"of a hypervisor: what its guests hold"`
	Part        *Part           `json:"part,omitempty" doc:"of a guest: what it holds of its host"`
}

// Hosting is what the guests of a hypervisor hold, of what guests can have.
type Hosting struct {
	Guests      []string       `json:"guests"`
	Cores       int            `json:"cores" doc:"held by at least one guest"`
	OfCores     int            `json:"of_cores"`
	MemoryMiB   int            `json:"memory_mib"`
	OfMemoryMiB int            `json:"of_memory_mib"`
	Devices     map[string]int `json:"devices,omitempty" doc:"by kind"`
	OfDevices   map[string]int `json:"of_devices,omitempty" doc:"by kind"`
}

// Part is what a guest holds of its host.
type Part struct {
	Host    string           `json:"host"`
	Cells   []placement.Cell `json:"cells" doc:"by memory node of the host"`
	Devices []string         `json:"devices,omitempty" doc:"PCI addresses on the host"`
	Share   int              `json:"share" doc:"guests that may have its cores, itself included"`
	MovesTo string           `json:"moves_to,omitempty" doc:"the host that it is on its way to"`
}

// Operation is an accepted change on its way. It is done when the cluster has reached its generation, or is paused, or is
// deleted.
type Operation struct {
	Kind        string `json:"kind" enum:"create,change,pause,resume,delete"`
	Cluster     string `json:"cluster" doc:"ID"`
	Generation  int64  `json:"generation"`
	EventsAfter int64  `json:"events_after" doc:"its events have higher numbers; give it as Last-Event-ID"`
}

// Plan is what a change does, or would do.
type Plan struct {
	Changes  []spec.Change `json:"changes" doc:"against the running cluster"`
	Messages []string      `json:"messages"`
	Price    string        `json:"price,omitempty" doc:"per hour, of the whole cluster"`
	FitsAt   *time.Time    `json:"fits_at,omitempty" doc:"when it can start; absent: now"`
	Add      []Placed      `json:"add" doc:"nodes to come, with the machines chosen for them"`
	Release  []string      `json:"release" doc:"nodes to go"`
	Steps    []Step        `json:"steps" doc:"what happens to nodes that are there: which, when and why"`
	Lays     []Lay         `json:"lays,omitempty" doc:"how the queues that get nodes lie in the network, where that is known"`
	Spec     spec.Cluster  `json:"spec" doc:"resolved"`
}

// Lay is how a queue's nodes lie in a fabric.
type Lay struct {
	Queue    string     `json:"queue"`
	Fabric   string     `json:"fabric"`
	Leaves   []LeafPart `json:"leaves" doc:"the one with the most nodes first"`
	Hops     int        `json:"hops" doc:"links between switches on the longest way between two nodes: 0 on one leaf, 2 by a spine; -1 if between some no way is known"`
	MeanHops float64    `json:"mean_hops" doc:"between any two nodes"`
	Unknown  int        `json:"unknown,omitempty" doc:"nodes of which the leaf is not known"`
	Text     string     `json:"text" doc:"the same in words"`
}

// LeafPart is how many nodes are on a leaf switch.
type LeafPart struct {
	Leaf   string `json:"leaf" doc:"of machines with several rails all their leaves: leaf01+leaf02"`
	Nodes  int    `json:"nodes"`
	Cables int    `json:"cables,omitempty" doc:"to other switches, which the nodes share; 0: not known"`
}

// Placed is a node with its machine.
type Placed struct {
	Node    string `json:"node"`
	Queue   string `json:"queue,omitempty"`
	Class   string `json:"class"`
	Machine string `json:"machine"`
}

// Answer is a plan and, unless it was a dry run, what was made of it.
type Answer struct {
	Plan
	Cluster   *Cluster   `json:"cluster,omitempty" doc:"absent on a dry run"`
	Operation *Operation `json:"operation,omitempty" doc:"absent on a dry run and when nothing changes"`
}

func planView(p *admission.Plan) Plan {
	view := Plan{Changes: p.Changes, Messages: p.Messages, Release: p.Release, Spec: p.Spec, Price: p.Price.String(), FitsAt: p.FitsAt, Add: []Placed{}}
	for _, n := range p.Add {
		view.Add = append(view.Add, Placed{Node: n.Name, Queue: n.Queue, Class: n.Class, Machine: n.Machine.Name})
	}
	for _, l := range p.Lays {
		lay := Lay{Queue: l.Queue, Fabric: l.Fabric, Leaves: []LeafPart{}, Hops: l.Hops, MeanHops: math.Round(l.Mean*1000) / 1000, Unknown: l.Unknown, Text: l.String()}
		for _, part := range l.Places {
			lay.Leaves = append(lay.Leaves, LeafPart{part.Place, part.Nodes, part.Up})
		}
		view.Lays = append(view.Lays, lay)
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
func (a *API) clusterView(ctx context.Context, tx *store.Tx, c store.Cluster) (Cluster, error) {
	view := Cluster{
		ID: c.ID, Name: c.Name, Project: c.Project, Phase: c.Phase, Reason: c.Reason, Lacks: c.Short, Since: c.PhaseAt,
		Generation: c.Generation, Reached: c.Reached, Image: c.Image, Spec: c.Spec, CreatedAt: c.CreatedAt, CreatedBy: c.CreatedBy,
		Nodes: []Node{}, Receipt: c.Receipt, Desired: c.Desired, Lease: leaseView(c),
	}
	if c.Phase == store.Paused {
		view.Held = c.Held
	}
	if a.HomeUsage != nil && c.Phase != store.Deleted {
		if size, used, err := a.HomeUsage(c.ID); err == nil && size > 0 { // it is no reason to refuse the rest
			view.Home = &HomeUsage{Size: size, Used: used}
		}
	}
	nodes, err := tx.Nodes(ctx, c.ID)
	if err != nil {
		return view, err
	}
	guests := map[string]store.Machine{}
	if slices.ContainsFunc(nodes, func(n store.Node) bool { return n.HostID != "" }) {
		if guests, err = tx.GuestsIn(ctx, c.ID); err != nil {
			return view, err
		}
	}
	for _, n := range nodes {
		view.Nodes = append(view.Nodes, Node{
			Part: partView(guests[n.MachineID]),
			ID:   n.ID, Name: n.Name, Role: n.Role, Queue: n.Queue, Class: n.Class, Machine: n.Machine, Leaf: n.Leaf, Address: substrate.Address(n.Slot).Addr().String(),
			Phase: n.Phase, Reason: n.Reason, Since: n.PhaseAt, Seen: n.Seen.At, Checks: n.Seen.Checks, Facts: n.Seen.Facts,
			Scheduler: n.Seen.Scheduler, Slurm: slurmAlias(n.Seen.Scheduler),
		})
	}
	view.Waiting = waitingView(c, nodes)
	view.Rollout = rolloutView(c, nodes)
	view.Apps = a.appsView(c)
	if view.Keys, err = tx.KeysOf(ctx, c.ID); err != nil {
		return view, err
	}
	return view, a.money(ctx, tx, &view)
}

// partView is what a guest holds of its host; nil if the machine is none.
func partView(m store.Machine) *Part {
	if m.Host == "" {
		return nil
	}
	p := &Part{Host: m.HostName, Cells: []placement.Cell{}, Share: 1}
	if h := m.Holding; h != nil {
		p.Cells, p.Devices, p.Share = h.Cells, h.Devices, h.Share
	}
	if m.Moves != nil {
		p.MovesTo = m.Moves.HostName
	}
	return p
}

// shareView is what is held of a machine by guests, which are among those given; nil if it holds none.
func shareView(m store.Machine, guests []store.Machine) *Hosting {
	if !m.Hosts {
		return nil
	}
	s := admission.ShareOf(m, guests)
	view := &Hosting{Guests: []string{}, Cores: s.Cores, OfCores: s.OfCores, MemoryMiB: s.MemoryMiB, OfMemoryMiB: s.OfMiB, Devices: s.Devices, OfDevices: s.OfDevices}
	for _, g := range guests {
		if g.Host == m.ID {
			view.Guests = append(view.Guests, g.Name)
		}
	}
	return view
}

// byHost are the guests among machines by their hosts' IDs, those included that are on their way there.
func byHost(machines []store.Machine) map[string][]store.Machine {
	guests := map[string][]store.Machine{}
	for _, m := range machines {
		if m.Host != "" {
			guests[m.Host] = append(guests[m.Host], m)
		}
		if m.Moves != nil {
			guests[m.Moves.Host] = append(guests[m.Moves.Host], m)
		}
	}
	return guests
}

func (a *API) machineView(m store.Machine) Machine {
	view := Machine{Part: partView(m), Drains: m.Drains, Name: m.Name, Substrate: m.Substrate, Network: m.Network, MACs: m.MACs, SwitchPorts: m.Ports, Power: m.Power.Control, Release: m.Release, Desired: m.Desired, Phase: m.Phase, Reason: m.Reason, Since: m.PhaseAt, Node: m.HolderName, Facts: m.Facts, Classes: []string{}}
	for _, class := range a.Admission.Catalogue.Classes {
		if class.Has(m.Machine) {
			view.Classes = append(view.Classes, class.Name)
		}
	}
	return view
}
