package machine

import (
	"muster/internal/core"
)

// Kind is also the table.
const Kind core.Kind = "machine"

// Holders is the kind of those who have machines. It stands a level above.
const Holders core.Kind = "node"

// Phases of a machine, beside Releasing.
const (
	Enrolled    core.Phase = "enrolled"
	Inspecting  core.Phase = "inspecting"
	Available   core.Phase = "available"
	Reserved    core.Phase = "reserved"
	InUse       core.Phase = "in-use"
	Maintenance core.Phase = "maintenance"
	Quarantined core.Phase = "quarantined"
	Removed     core.Phase = "removed"
)

// What may be wanted of a machine.
const (
	ForService     core.Desired = "service"
	ForMaintenance core.Desired = "maintenance"
	ForRemoval     core.Desired = "removed"
)

// Definition registers the kind, with its network interfaces, boots and what hypervisors give away.
func Definition() core.Definition {
	return core.Definition{
		Kind:     Kind,
		Phases:   []core.Phase{Enrolled, Inspecting, Available, Reserved, InUse, core.Releasing, Maintenance, Quarantined},
		End:      Removed,
		Failures: []core.Phase{Quarantined},
		Alarm: &core.Alarm{One: "machine is in quarantine", More: "machines are in quarantine",
			Look: "`muster machines list` says why"},
	}
}
