// Package kinds is the only list of kinds. A kind is a folder here, with its rows; its line in All makes the engine, leases,
// census, metrics and secrets know it.
//
// What enters: the definitions of the folders. What leaves: the database with all kinds, and how many there are of each.
package kinds

import (
	"context"

	"muster/internal/core"
	"muster/internal/core/sealing"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/bench/benchlife"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/cluster/clusterlife"
	"muster/internal/kinds/external"
	"muster/internal/kinds/external/externallife"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/fabric/fabriclife"
	"muster/internal/kinds/host"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/machine/machinelife"
	"muster/internal/kinds/node"
	"muster/internal/kinds/node/nodelife"
	"muster/internal/kinds/person"
	"muster/internal/kinds/snapshot"
	"muster/internal/kinds/snapshot/snapshotlife"
	"muster/internal/kinds/task"
	"muster/internal/kinds/task/tasklife"
	"muster/internal/kit/lists"
)

// kind is a line of the list.
type kind struct {
	core.Definition
	life func(life.Deps) core.Table // phase → handler; nil: its rows have no life
}

// list has all kinds, in the order in which a controller looks for work: the widest first. Engine, leases, metrics, census and
// secrets follow from it.
func list() []kind {
	return []kind{
		{cluster.Definition(), clusterlife.Table},
		{node.Definition(), nodelife.Table},
		{machine.Definition(), machinelife.Table},
		{snapshot.Definition(), snapshotlife.Table},
		{fabrics.Definition(), fabriclife.Table},
		{task.Definition(), tasklife.Table},
		{bench.Definition(), benchlife.Table},
		{external.Definition(), externallife.Table},
		{host.Definition(), nil},
		{person.Definition(), nil},
		{authority.Definition(), nil},
	}
}

// All lists how the kinds are defined.
func All() []core.Definition {
	return lists.Map(list(), func(k kind) core.Definition { return k.Definition })
}

// Phases are those that a living entity of a kind can be in, in the order of a life.
func Phases(k core.Kind) []core.Phase {
	found, _ := lists.Find(All(), func(d core.Definition) bool { return d.Kind == k })
	return found.Phases
}

// Open opens the database with all kinds; see core.Open.
func Open(ctx context.Context, url string, keys *sealing.Ring, options ...core.Option) (*core.Store, error) {
	return core.Open(ctx, url, keys, All(), options...)
}
