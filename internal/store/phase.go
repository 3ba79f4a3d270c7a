package store

import "slices"

// Phase is where an entity is in its life. lifecycle alone changes it.
type Phase string

// Phases of a machine.
const (
	Enrolled    Phase = "enrolled"
	Inspecting  Phase = "inspecting"
	Available   Phase = "available"
	Reserved    Phase = "reserved"
	InUse       Phase = "in-use"
	Maintenance Phase = "maintenance"
	Quarantined Phase = "quarantined"
	Removed     Phase = "removed"
)

// Phases of a node.
const (
	Attaching Phase = "attaching"
	Booting   Phase = "booting"
	Joining   Phase = "joining"
	Testing   Phase = "testing"
	Draining  Phase = "draining"
	Failed    Phase = "failed"
	Gone      Phase = "gone"
)

// Phases of a cluster.
const (
	Provisioning Phase = "provisioning"
	Degraded     Phase = "degraded"
	Pausing      Phase = "pausing"
	Paused       Phase = "paused"
	Resuming     Phase = "resuming"
	Deleting     Phase = "deleting"
	Deleted      Phase = "deleted"
)

// Phases of a snapshot.
const (
	Saving Phase = "saving"
	Saved  Phase = "saved"
)

// Phases of a task.
const (
	Queued  Phase = "queued" // its cluster's head was told of it
	Running Phase = "running"
	Ended   Phase = "ended"
)

// Phases of more than one kind.
const (
	Pending   Phase = "pending"   // node, cluster, task
	Ready     Phase = "ready"     // node, cluster
	Releasing Phase = "releasing" // node, machine
)

// Desired is the intent beside the phase.
type Desired string

// What may be wanted of a machine, a cluster, a node.
const (
	ForService     Desired = "service"
	ForMaintenance Desired = "maintenance"
	ForRemoval     Desired = "removed"
	Present        Desired = "present"
	Absent         Desired = "absent"
	ToPause        Desired = "paused"
	ToDelete       Desired = "deleted"
)

// Definition says of a kind what is generic: what is counted, shown and documented of it follows.
type Definition struct {
	Kind   Kind
	Phases []Phase // that a living one can be in, in the order of a life
	End    Phase   // that it stays in when it is over
}

// Kinds defines all that have a life, in the order in which a controller looks for work: the widest first.
func Kinds() []Definition {
	return []Definition{
		{ClusterKind, []Phase{Pending, Provisioning, Ready, Degraded, Pausing, Paused, Resuming, Deleting}, Deleted},
		{NodeKind, []Phase{Pending, Attaching, Booting, Joining, Testing, Ready, Draining, Failed, Releasing}, Gone},
		{MachineKind, []Phase{Enrolled, Inspecting, Available, Reserved, InUse, Releasing, Maintenance, Quarantined}, Removed},
		{SnapshotKind, []Phase{Saving, Saved, Failed, Deleting}, Deleted},
		{FabricKind, []Phase{Pending, Ready, Degraded}, Deleted},
		{TaskKind, []Phase{Pending, Queued, Running}, Ended},
	}
}

// Phases are those that a living entity of a kind can be in.
func Phases(k Kind) []Phase {
	all := Kinds()
	if i := slices.IndexFunc(all, func(d Definition) bool { return d.Kind == k }); i >= 0 {
		return all[i].Phases
	}
	return nil
}
