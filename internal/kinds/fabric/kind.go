package fabric

import (
	"muster/internal/core"
)

// Kind is also the table.
const Kind core.Kind = "fabric"

// Definition registers the kind, with its ports and partitions.
func Definition() core.Definition {
	return core.Definition{
		Kind:     Kind,
		Phases:   []core.Phase{core.Pending, core.Ready, core.Degraded},
		End:      core.Deleted,
		Failures: []core.Phase{core.Degraded},
		Alarm:    &core.Alarm{One: "fabric is degraded", More: "fabrics are degraded", Look: "`muster fabric list` says why"},
		Races:    []string{"partition_key", "partition_cluster", "partition_member_sole"},
	}
}
