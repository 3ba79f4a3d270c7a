package monitor

import (
	"context"
	"errors"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// smallCluster is a database with one cluster, c1, which is called cfd: its nodes head and n1 are on machines m1 and m2.
func smallCluster(t *testing.T) *core.Store {
	t.Helper()
	db := kindstest.Open(t, t.TempDir()+"/db")
	kindstest.AddMachines(t, db, 2)
	kindstest.AddCluster(t, db, "c1", "cfd")
	kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
		head := node.Node{ID: "head", Cluster: "c1", Name: "head", Role: protocol.Head, Class: "local", MachineID: "m1",
			Machine: "m1"}
		return errors.Join(cluster.AddSeat(ctx, tx, "c1", cluster.Seat{Name: "head", Slot: 1}), node.Add(ctx, tx, head),
			kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 2, "m2"))
	})
	return db
}
