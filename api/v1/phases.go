package v1

// Phase is where a cluster, a node, a machine, a snapshot, a fabric or a task is in its life.
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
	Queued  Phase = "queued"
	Running Phase = "running"
	Ended   Phase = "ended"
)

// Phases of more than one kind.
const (
	Pending   Phase = "pending"   // node, cluster, fabric, task
	Ready     Phase = "ready"     // node, cluster, fabric
	Releasing Phase = "releasing" // node, machine
)

// Desired is what is wanted, beside the phase.
type Desired string

// What may be wanted of a machine, and of a cluster.
const (
	ForService     Desired = "service"
	ForMaintenance Desired = "maintenance"
	ForRemoval     Desired = "removed"
	Present        Desired = "present"
	ToPause        Desired = "paused"
	ToDelete       Desired = "deleted"
)
