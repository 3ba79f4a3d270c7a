// Package machinelife is the life of machines: inspected, reserved, used, released, quarantined; and the life of hypervisors.
//
// What enters: rows of machines and of their boots. What leaves: inspections, new phases, and an event for every change.
package machinelife

import (
	"muster/internal/core"
	"muster/internal/kinds/life"
)

// Handlers are those of machines, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of machines.
func Table(d life.Deps) core.Table {
	return Handlers{d}.table()
}
