// Package clusterlife is the life of clusters: how intent, leases, budgets and snapshots move them from phase to phase.
//
// What enters: rows of clusters and of their nodes. What leaves: new phases, intent for nodes, and an event for every change.
package clusterlife

import (
	"muster/internal/core"
	"muster/internal/kinds/life"
)

// Handlers are those of clusters, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of clusters.
func Table(d life.Deps) core.Table {
	return Handlers{d}.table()
}
