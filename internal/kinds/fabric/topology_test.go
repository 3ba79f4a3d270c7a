package fabric_test

import (
	"reflect"
	"testing"

	"muster/internal/core"
	"muster/internal/drivers/fabric/fabrictest"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/kindstest"
	"muster/internal/place/topology"
)

func TestTheLastSnapshotOfAFabricCounts(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		ctx, db := t.Context(), kindstest.Open(t, url)
		var want *topology.Graph
		update := func(f func(*core.Tx) error) {
			t.Helper()
			if err := db.Update(ctx, f); err != nil {
				t.Fatal(err)
			}
		}
		for _, hosts := range []int{4, 7} {
			g, err := topology.Parse(fabrictest.FatTree(hosts, 2, 2))
			if err != nil {
				t.Fatal(err)
			}
			want = g
			update(func(tx *core.Tx) error { return fabrics.SetTopology(ctx, tx, "ib1", g) })
		}
		update(func(tx *core.Tx) error { return fabrics.SetTopology(ctx, tx, "ib0", &topology.Graph{}) })
		update(func(tx *core.Tx) error { return fabrics.DropTopology(ctx, tx, "ib0") })
		update(func(tx *core.Tx) error {
			all, err := fabrics.Topology(ctx, tx)
			if err != nil || len(all) != 1 || all[0].Fabric != "ib1" || all[0].TakenAt.IsZero() ||
				!reflect.DeepEqual(all[0].Graph, want) {
				t.Errorf("%+v %v", all, err)
			}
			return nil
		})
	})
}
