// Package benchlife is the life of runs of benchmarks: round after round, each a task of its cluster.
//
// What enters: rows of runs, and what their tasks have written. What leaves: tasks, rows of rounds, new phases, and an event for
// every change.
package benchlife

import (
	"muster/internal/core"
	"muster/internal/kinds/life"
)

// Handlers are those of runs, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of runs.
func Table(d life.Deps) core.Table {
	return Handlers{d}.table()
}
