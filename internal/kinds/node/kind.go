package node

import (
	"context"

	"muster/internal/core"
	"muster/internal/kinds/meter"
	"muster/internal/price"
)

// Kind is also the table.
const Kind core.Kind = "node"

// Phases of a node, beside Pending, Ready, Failed and Releasing.
const (
	Attaching core.Phase = "attaching"
	Booting   core.Phase = "booting"
	Joining   core.Phase = "joining"
	Testing   core.Phase = "testing"
	Draining  core.Phase = "draining"
	Gone      core.Phase = "gone"
)

// Absent may be wanted of a node, beside Present.
const Absent core.Desired = "absent"

// Definition registers the kind. What a node costs follows its phase.
func Definition() core.Definition {
	return core.Definition{
		Kind: Kind,
		Phases: []core.Phase{core.Pending, Attaching, Booting, Joining, Testing, core.Ready, Draining, core.Failed,
			core.Releasing},
		End:      Gone,
		Failures: []core.Phase{core.Failed},
		Settled:  meterOf,
		Races:    []string{"node_machine_id_key"},
	}
}

// asleep is the phase of a suspended node, as the meter records it.
const asleep core.Phase = "asleep"

// meterOf brings a node's meter in line with its phase.
func meterOf(ctx context.Context, tx *core.Tx, id string) error {
	return meter.Follow(ctx, tx, Kind, `CASE WHEN e.phase = 'pending' AND e.sleeps = 1 THEN '`+string(asleep)+
		`' ELSE e.phase END`, stateOf, id)
}

// stateOf is what a phase of a node is to the meter; "" when it is gone.
func stateOf(p core.Phase, _ price.State) price.State {
	switch p {
	case core.Ready:
		return price.Ready
	case Draining:
		return price.Draining
	case core.Failed:
		return price.Failed
	case core.Releasing:
		return price.Releasing
	case Gone:
		return ""
	case asleep:
		return price.Stored
	}
	return price.Preparing
}
