package external

import (
	"muster/internal/core"
)

// Kind is also the table.
const Kind core.Kind = "external_cluster"

// Definition registers the kind. Its rows are deleted at their end.
func Definition() core.Definition {
	return core.Definition{
		Kind:     Kind,
		Phases:   []core.Phase{core.Pending, core.Ready, core.Degraded},
		End:      core.Deleted,
		Failures: []core.Phase{core.Degraded},
		Alarm: &core.Alarm{One: "external cluster does not answer", More: "external clusters do not answer",
			Look: "`muster list` says why"},
	}
}
