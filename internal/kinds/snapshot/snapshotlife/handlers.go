// Package snapshotlife is the life of snapshots: copied, kept, deleted.
//
// What enters: rows of snapshots. What leaves: calls of those who copy, new phases, and an event for every change.
package snapshotlife

import (
	"muster/internal/core"
	"muster/internal/kinds/life"
)

// Handlers are those of snapshots, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of snapshots.
func Table(d life.Deps) core.Table {
	return Handlers{d}.table()
}
