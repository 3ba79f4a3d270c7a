// Package tasklife is the life of tasks: told to their cluster's head, followed, ended.
//
// What enters: rows of tasks and what heads said of them. What leaves: new phases, and an event for every change.
package tasklife

import (
	"muster/internal/core"
	"muster/internal/kinds/life"
)

// Handlers are those of tasks, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of tasks.
func Table(d life.Deps) core.Table {
	return Handlers{d}.table()
}
