package task

import (
	"muster/internal/core"
)

// Kind is also the table.
const Kind core.Kind = "task"

// Phases of a task, beside Pending.
const (
	Queued  core.Phase = "queued" // its cluster's head was told of it
	Running core.Phase = "running"
	Ended   core.Phase = "ended"
)

// Definition registers the kind.
func Definition() core.Definition {
	return core.Definition{Kind: Kind, Phases: []core.Phase{core.Pending, Queued, Running}, End: Ended}
}
