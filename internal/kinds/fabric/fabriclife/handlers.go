// Package fabriclife is the life of fabrics: what is wanted is told to the driver and read back from the ports.
//
// What enters: rows of fabrics, and tables from their drivers. What leaves: tables for drivers, what was seen of ports, alarms.
package fabriclife

import (
	"muster/internal/core"
	"muster/internal/kinds/life"
)

// Handlers are those of fabrics, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of fabrics; nil where none is managed.
func Table(d life.Deps) core.Table {
	if d.Fabrics == nil {
		return nil
	}
	return Handlers{d}.table()
}
