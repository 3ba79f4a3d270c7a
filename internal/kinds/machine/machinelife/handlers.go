// Package machinelife is the life of machines: inspected, given away, proved clean, set apart; and of those that hold guests.
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
