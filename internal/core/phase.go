package core

// Phase is where an entity is in its life. Only the engine changes it.
type Phase string

// Phases that several kinds have.
const (
	Pending   Phase = "pending"
	Ready     Phase = "ready"
	Degraded  Phase = "degraded"
	Failed    Phase = "failed"
	Releasing Phase = "releasing"
	Deleting  Phase = "deleting"
	Deleted   Phase = "deleted"
)

// Desired is the intent beside the phase.
type Desired string

// What may be wanted of several kinds.
const (
	Present  Desired = "present"
	ToDelete Desired = "deleted"
)
