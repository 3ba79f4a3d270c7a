package cluster

import (
	"context"

	"muster/internal/core"
	"muster/internal/kinds/meter"
	"muster/internal/price"
)

// Kind is also the table.
const Kind core.Kind = "cluster"

// Phases of a cluster, beside Pending, Ready, Degraded, Deleting and Deleted.
const (
	Provisioning core.Phase = "provisioning"
	Pausing      core.Phase = "pausing"
	Paused       core.Phase = "paused"
	Resuming     core.Phase = "resuming"
)

// ToPause may be wanted of a cluster, beside Present and core.ToDelete.
const ToPause core.Desired = "paused"

// Definition registers the kind. What a cluster's /home costs ends with it.
func Definition() core.Definition {
	return core.Definition{
		Kind:     Kind,
		Phases:   []core.Phase{core.Pending, Provisioning, core.Ready, core.Degraded, Pausing, Paused, Resuming, core.Deleting},
		End:      core.Deleted,
		Failures: []core.Phase{core.Degraded},
		Alarm:    &core.Alarm{One: "cluster is degraded", More: "clusters are degraded", Look: "`muster list` names it"},
		Settled:  meterHome,
		Sealed:   []core.SealedColumn{credential()},
		Races:    []string{"cluster_segment"},
	}
}

// credential is what the daemons of a cluster know one another by.
func credential() core.SealedColumn {
	return core.SealedColumn{Table: "cluster", Name: "credential", Row: "id"}
}

// meterHome brings the meter of a cluster's /home in line with its phase.
func meterHome(ctx context.Context, tx *core.Tx, id string) error {
	return meter.Follow(ctx, tx, Kind, `e.phase`, homeState, id)
}

// homeState is what a phase of a cluster is to the meter of its /home, which is in a state now; "" when it is gone.
func homeState(p core.Phase, now price.State) price.State {
	if p == core.Deleted {
		return ""
	}
	return now
}
