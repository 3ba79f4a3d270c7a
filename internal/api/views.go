package api

import (
	"context"
	"time"

	"muster/internal/admission"
	"muster/internal/agent/protocol"
	"muster/internal/inventory"
	"muster/internal/spec"
	"muster/internal/store"
	"muster/internal/substrate"
)

// Cluster is a cluster as users see it.
type Cluster struct {
	ID         string         `json:"id" doc:"for life"`
	Name       string         `json:"name"`
	Project    string         `json:"project"`
	Phase      store.Phase    `json:"phase" enum:"pending,provisioning,ready,degraded,pausing,paused,resuming,deleting,deleted"`
	Desired    store.Desired  `json:"desired" enum:"present,paused,deleted" doc:"what is wanted of it"`
	Reason     string         `json:"reason,omitempty" doc:"why it is in this phase, or what it waits for"`
	Held       int64          `json:"held,omitempty" doc:"bytes of /home and state that a paused cluster takes"`
	Lacks      string         `json:"lacks,omitempty" doc:"why missing nodes cannot come now"`
	Since      time.Time      `json:"since" doc:"when the phase began"`
	Rollout    *Rollout       `json:"rollout,omitempty" doc:"while nodes do not boot what the spec says"`
	Generation int64          `json:"generation" doc:"of the spec; every accepted change adds one"`
	Reached    int64          `json:"reached" doc:"the newest generation that was wholly ready"`
	Image      string         `json:"image" doc:"digest"`
	Spec       spec.Cluster   `json:"spec" doc:"resolved: every default filled in"`
	Lease      Term           `json:"lease"`
	Price      string         `json:"price,omitempty" doc:"per hour when all its nodes are ready, where the site has prices"`
	Cost       string         `json:"cost,omitempty" doc:"charged so far"`
	PerHour    string         `json:"per_hour,omitempty" doc:"charged now"`
	Limits     []Limit        `json:"limits,omitempty" doc:"its own budget"`
	CreatedAt  time.Time      `json:"created_at"`
	CreatedBy  string         `json:"created_by"`
	Nodes      []Node         `json:"nodes" doc:"those not gone, the head first"`
	Apps       []WebApp       `json:"apps,omitempty" doc:"its web apps"`
	Waiting    *Waiting       `json:"waiting,omitempty" doc:"jobs that wait; absent if none does"`
	Receipt    *store.Receipt `json:"receipt,omitempty" doc:"proof of its end, once deleted"`
}

// Node is a member of a cluster.
type Node struct {
	ID      string              `json:"id"`
	Name    string              `json:"name"`
	Role    protocol.Role       `json:"role" enum:"head,compute"`
	Queue   string              `json:"queue,omitempty"`
	Class   string              `json:"class"`
	Machine string              `json:"machine"`
	Address string              `json:"address" doc:"on the cluster's own network"`
	Phase   store.Phase         `json:"phase" enum:"pending,attaching,booting,joining,testing,ready,draining,failed,releasing,gone"`
	Reason  string              `json:"reason,omitempty"`
	Since   time.Time           `json:"since"`
	Seen    time.Time           `json:"seen,omitzero" doc:"last report of its agent"`
	Checks  []protocol.Check    `json:"checks,omitempty"`
	Facts   protocol.NodeFacts  `json:"facts" doc:"as the node finds itself from inside"`
	Slurm   *protocol.SlurmNode `json:"slurm,omitempty" doc:"as the head sees it"`
}

// Machine is one physical or simulated host.
type Machine struct {
	Name      string          `json:"name"`
	Substrate string          `json:"substrate"`
	Network   string          `json:"network,omitempty" doc:"that it boots from"`
	MACs      []string        `json:"macs,omitempty"`
	Power     string          `json:"power,omitempty" doc:"how it is switched"`
	Release   *store.Release  `json:"release,omitempty" doc:"proof of the last time that it was given back"`
	Desired   store.Desired   `json:"desired" enum:"service,maintenance,removed" doc:"what is wanted of it when it is free"`
	Phase     store.Phase     `json:"phase" enum:"enrolled,inspecting,available,reserved,in-use,releasing,maintenance,quarantined,removed"`
	Reason    string          `json:"reason,omitempty"`
	Since     time.Time       `json:"since"`
	Node      string          `json:"node,omitempty" doc:"cluster/node that has it"`
	Classes   []string        `json:"classes"`
	Facts     inventory.Facts `json:"facts"`
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
	Spec     spec.Cluster  `json:"spec" doc:"resolved"`
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
	nodes, err := tx.Nodes(ctx, c.ID)
	if err != nil {
		return view, err
	}
	for _, n := range nodes {
		view.Nodes = append(view.Nodes, Node{
			ID: n.ID, Name: n.Name, Role: n.Role, Queue: n.Queue, Class: n.Class, Machine: n.Machine, Address: substrate.Address(n.Slot).Addr().String(),
			Phase: n.Phase, Reason: n.Reason, Since: n.PhaseAt, Seen: n.Seen.At, Checks: n.Seen.Checks, Facts: n.Seen.Facts, Slurm: n.Seen.Slurm,
		})
	}
	view.Waiting = waitingView(c, nodes)
	view.Rollout = rolloutView(c, nodes)
	view.Apps = a.appsView(c)
	return view, a.money(ctx, tx, &view)
}

func (a *API) machineView(m store.Machine) Machine {
	view := Machine{Name: m.Name, Substrate: m.Substrate, Network: m.Network, MACs: m.MACs, Power: m.Power.Control, Release: m.Release, Desired: m.Desired, Phase: m.Phase, Reason: m.Reason, Since: m.PhaseAt, Node: m.HolderName, Facts: m.Facts, Classes: []string{}}
	for _, class := range a.Admission.Catalogue.Classes {
		if class.Has(m.Machine) {
			view.Classes = append(view.Classes, class.Name)
		}
	}
	return view
}
