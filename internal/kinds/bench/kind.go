package bench

import "muster/internal/core"

// Kind is also the table.
const Kind core.Kind = "benchmark"

// Phases of a run, beside Pending.
const (
	Running core.Phase = "running"
	Ended   core.Phase = "ended"
)

// Definition registers the kind.
func Definition() core.Definition {
	return core.Definition{Kind: Kind, Phases: []core.Phase{core.Pending, Running}, End: Ended}
}
