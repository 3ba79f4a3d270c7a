package snapshot

import (
	"muster/internal/core"
)

// Kind is also the table.
const Kind core.Kind = "snapshot"

// Phases of a snapshot, beside Failed, Deleting and Deleted.
const (
	Saving core.Phase = "saving"
	Saved  core.Phase = "saved"
)

// Definition registers the kind.
func Definition() core.Definition {
	return core.Definition{
		Kind:     Kind,
		Phases:   []core.Phase{Saving, Saved, core.Failed, core.Deleting},
		End:      core.Deleted,
		Failures: []core.Phase{core.Failed},
	}
}
