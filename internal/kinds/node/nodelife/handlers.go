// Package nodelife is the life of nodes: attached, booted, joined, tested, ready, drained, released.
//
// What enters: rows of nodes and what their agents said. What leaves: calls of substrates, new phases, and an event for every
// change.
package nodelife

import (
	"muster/internal/core"
	"muster/internal/kinds/life"
)

// Handlers are those of nodes, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of nodes.
func Table(d life.Deps) core.Table {
	return Handlers{d}.table()
}
