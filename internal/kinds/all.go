// Package kinds is the only list of kinds. A kind is a folder here, with its rows; its line in All makes the engine, leases, census,
// metrics and secrets know it.
//
// What enters: the definitions of the folders. What leaves: the database with all kinds, and how many there are of each.
package kinds

import (
	"context"
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
	"muster/internal/kinds/snapshot"
	"muster/internal/kinds/task"
	"muster/internal/sealing"
)

// All lists them, in the order in which a controller looks for work: the widest first. Engine, leases, metrics, census and
// secrets follow from it.
func All() []core.Definition {
	return []core.Definition{
		cluster.Definition(),
		node.Definition(),
		machine.Definition(),
		snapshot.Definition(),
		fabrics.Definition(),
		task.Definition(),
		person.Definition(),
		authority.Definition(),
	}
}

// Phases are those that a living entity of a kind can be in, in the order of a life.
func Phases(k core.Kind) []core.Phase {
	all := All()
	if i := slices.IndexFunc(all, func(d core.Definition) bool { return d.Kind == k }); i >= 0 {
		return all[i].Phases
	}
	return nil
}

// Open opens the database with all kinds; see core.Open.
func Open(ctx context.Context, url string, keys *sealing.Ring, options ...core.Option) (*core.Store, error) {
	return core.Open(ctx, url, keys, All(), options...)
}
