package admission

import (
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kit/lists"
	"muster/internal/place"
	"muster/internal/place/topology"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// member is a node that is to be placed.
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

// membersOf are those of a cluster file, as they are asked of machines.
func membersOf(c spec.Cluster, members []cluster.Member) []member {
	return lists.Map(members, func(m cluster.Member) member {
		if m.Role == protocol.Head {
			return member{Name: m.Name, Role: m.Role, Class: c.Head.Class, path: "head.class"}
		}
		q := m.Queue
		return member{Name: m.Name, Role: m.Role, Queue: q.Name, Class: q.Class, or: q.Or, path: sizePath(q.Name), above: m.Above,
			vm: q.VM, policy: place.Policy(q.Placement)}
	})
}

// sizePath is where a file says how many nodes a queue has.
func sizePath(queue string) string { return "queues[" + queue + "].max" }
