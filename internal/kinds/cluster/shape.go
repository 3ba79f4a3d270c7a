package cluster

import (
	"cmp"
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// HeadName is the head node's host name.
const HeadName = "head"

// Member is a node that a cluster's file wants.
type Member struct {
	Name  string
	Role  protocol.Role
	Queue spec.Queue // its own; the zero value is the head's
	Above bool       // its queue grows, and has its min without it
}

// Shape is what the cluster's intent makes of the nodes there are: who is missing, the head first, and who must go. It keeps as
// many of a queue's nodes as the cluster wants now. Those go first that are not ready, then those without jobs, of an elastic
// queue longest idle first, then those with the highest numbers; a node of a class that the queue does not name, of another
// shape, or of a queue that was removed, goes in any case.
// Missing nodes get the lowest numbers whose names are not in use: a name is free when its node is gone.
func (c Cluster) Shape(nodes []node.Node) (missing []Member, surplus []node.Node) {
	taken := map[string]bool{}
	staying := map[string][]node.Node{} // queue → nodes; the head's is ""
	for _, n := range nodes {
		taken[n.Name] = true
		if n.Desired == core.Present && !(c.Desired == ToPause && n.Asleep()) { // of those that sleep the resume decides
			staying[n.Queue] = append(staying[n.Queue], n)
		}
	}
	if c.Desired == ToPause {
		surplus = staying[""]
	} else if len(staying[""]) == 0 && !taken[HeadName] {
		missing = append(missing, Member{Name: HeadName, Role: protocol.Head})
	}
	delete(staying, "")
	for _, q := range c.Spec.Queues {
		want := c.Wants(q)
		fits := slices.Clone(staying[q.Name])
		delete(staying, q.Name)
		fits = slices.DeleteFunc(fits, func(n node.Node) bool {
			other := !slices.Contains(q.Classes(), n.Class) || n.VM != nil && q.VM != nil && !spec.SameShape(*n.VM, *q.VM)
			if other {
				surplus = append(surplus, n)
			}
			return other
		})
		slices.SortStableFunc(fits, func(a, b node.Node) int {
			later := 0
			if q.Elastic() {
				later = b.Seen.IdleAt.Compare(a.Seen.IdleAt)
			}
			return cmp.Or(cmp.Compare(b.Worth(), a.Worth()), later, cmp.Compare(a.Slot, b.Slot))
		})
		if len(fits) > want {
			surplus = append(surplus, fits[want:]...)
		}
		for number, have := 1, len(fits); have < want; number++ {
			if name := spec.NodeName(q.Name, number); !taken[name] {
				missing = append(missing, Member{Name: name, Role: protocol.Compute, Queue: q, Above: have >= *q.Min})
				have++
			}
		}
	}
	for _, gone := range staying { // queues that were removed
		surplus = append(surplus, gone...)
	}
	slices.SortFunc(surplus, func(a, b node.Node) int { return cmp.Compare(a.Slot, b.Slot) })
	return missing, surplus
}
