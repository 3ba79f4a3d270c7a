package clusterlife

import (
	"context"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
)

// CPUsOf is cpusOf of a cluster with these nodes.
func CPUsOf(ctx context.Context, db *core.Store, c cluster.Cluster, nodes []node.Node) (map[string]int, error) {
	return Handlers{life.Deps{DB: db}}.cpusOf(ctx, clusterView{Cluster: c, nodes: nodes})
}
