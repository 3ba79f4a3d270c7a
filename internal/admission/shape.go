package admission

import (
	"cmp"
	"context"
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/place"
	"muster/internal/place/topology"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// HeadName is the head node's host name.
const HeadName = "head"

// member is a node that a spec wants.
type member struct {
	Name  string
	Role  protocol.Role
	Queue string
	Class string
	or    []string   // classes that will do instead, in order
	path  string     // of the number or class that asks for it
	above bool       // its queue grows, and has its min without it
	vm    *spec.VM   // what it has of its host where it is a guest; nil: as its class says
	wakes *node.Node // a node that sleeps, which it is to be: on no other host than its own

	policy place.Policy  // how its queue's machines are to lie
	fabric *topology.Map // in which network; nil: where machines are is not known. locate fills it in
	beside []string      // the machines of nodes that are there
}

// shape is what a cluster's intent makes of the nodes there are: who is missing, the head first, and who must go.
type shape struct {
	missing []member
	release []node.Node
}

// shapeOf keeps as many of a queue's nodes as the cluster wants now. Those go first that are not ready, then those without
// jobs, of an elastic queue longest idle first, then those with the highest numbers; a node of a class that the queue does
// not name, of another shape, or of a queue that was removed, goes in any case.
// Missing nodes get the lowest numbers whose names are not in use: a name is free when its node is gone.
func shapeOf(c cluster.Cluster, nodes []node.Node) shape {
	var s shape
	taken := map[string]bool{}
	staying := map[string][]node.Node{} // queue → nodes; the head's is ""
	for _, n := range nodes {
		taken[n.Name] = true
		if n.Desired == core.Present && !(c.Desired == cluster.ToPause && n.Asleep()) { // of those that sleep the resume decides
			staying[n.Queue] = append(staying[n.Queue], n)
		}
	}
	if c.Desired == cluster.ToPause {
		s.release = staying[""]
	} else if len(staying[""]) == 0 && !taken[HeadName] {
		s.missing = append(s.missing, member{Name: HeadName, Role: protocol.Head, Class: c.Spec.Head.Class, path: "head.class"})
	}
	delete(staying, "")
	for _, q := range c.Spec.Queues {
		want := c.Wants(q)
		fits := slices.Clone(staying[q.Name])
		delete(staying, q.Name)
		fits = slices.DeleteFunc(fits, func(n node.Node) bool {
			other := !slices.Contains(q.Classes(), n.Class) || n.VM != nil && q.VM != nil && !spec.SameShape(*n.VM, *q.VM)
			if other {
				s.release = append(s.release, n)
			}
			return other
		})
		slices.SortStableFunc(fits, func(a, b node.Node) int {
			later := 0
			if q.Elastic() {
				later = b.Seen.IdleAt.Compare(a.Seen.IdleAt)
			}
			return cmp.Or(cmp.Compare(worth(b), worth(a)), later, cmp.Compare(a.Slot, b.Slot))
		})
		if len(fits) > want {
			s.release = append(s.release, fits[want:]...)
		}
		for number, have := 1, len(fits); have < want; number++ {
			if name := spec.NodeName(q.Name, number); !taken[name] {
				s.missing = append(s.missing, member{Name: name, Role: protocol.Compute, Queue: q.Name, Class: q.Class, or: q.Or,
					path: sizePath(q.Name), above: have >= *q.Min, vm: q.VM, policy: place.Policy(q.Placement)})
				have++
			}
		}
	}
	for _, gone := range staying { // queues that were removed
		s.release = append(s.release, gone...)
	}
	slices.SortFunc(s.release, func(a, b node.Node) int { return cmp.Compare(a.Slot, b.Slot) })
	return s
}

// sizePath is where a file says how many nodes a queue has.
func sizePath(queue string) string { return "queues[" + queue + "].max" }

// Surplus are the nodes that are too many for a cluster as wanted now, or of a kind that it does not want.
func Surplus(c cluster.Cluster, nodes []node.Node) []node.Node { return shapeOf(c, nodes).release }

// worth is how much would be lost with a node.
func worth(n node.Node) int {
	switch {
	case n.Phase != core.Ready:
		return 0
	case n.Seen.Scheduler == nil || n.Seen.Scheduler.Jobs == 0:
		return 1
	}
	return 2
}

// Missing are the names of a cluster's members that have no node.
func Missing(ctx context.Context, tx *core.Tx, c cluster.Cluster) (names []string, err error) {
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return nil, err
	}
	for _, m := range shapeOf(c, nodes).missing {
		names = append(names, m.Name)
	}
	return names, nil
}
