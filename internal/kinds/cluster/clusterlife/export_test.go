package clusterlife

import (
	"context"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// Guess is guess of a cluster with these nodes.
func Guess(ctx context.Context, db *core.Store, c cluster.Cluster, nodes []node.Node) (map[string]protocol.Size, error) {
	return Handlers{life.Deps{DB: db}}.guess(ctx, clusterView{Cluster: c, nodes: nodes})
}
