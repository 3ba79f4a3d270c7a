package clusterlife_test

import (
	"context"
	"errors"
	"testing"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/cluster/clusterlife"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

// TestAQueueWhoseNodesBootIsMeasuredByTheirMachines: its cluster looks often while they boot, and must not read the site for it.
func TestAQueueWhoseNodesBootIsMeasuredByTheirMachines(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 30)
		kindstest.AddCluster(t, s, "c1", "alpha")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(machine.SaveFacts(ctx, tx, "m7", 1, inventory.Facts{CPUs: 16, MemoryMiB: 4096}),
				kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 2, "m7"))
		})
		var c cluster.Cluster
		var nodes []node.Node
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
			if c, err = cluster.Get(ctx, tx, "c1"); err == nil {
				nodes, err = node.Of(ctx, tx, "c1")
			}
			return err
		})
		since := kindstest.Costs(t, s)
		guess, err := clusterlife.Guess(t.Context(), s, c, nodes)
		if cost := since(); err != nil || guess["main"].CPUs != 16 || guess["main"].Memory != 4096 || cost.Rows != 1 {
			t.Errorf("%v, %v: %d rows were read", guess, err, cost.Rows)
		}
	})
}
