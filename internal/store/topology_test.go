package store_test

import (
	"reflect"
	"testing"

	"muster/internal/fabric/fabrictest"
	"muster/internal/fabric/topology"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestTheLastSnapshotOfAFabricCounts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		ctx, db := t.Context(), storetest.Open(t, url)
		var want *topology.Graph
		update := func(f func(*store.Tx) error) {
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
			update(func(tx *store.Tx) error { return tx.SetTopology(ctx, "ib1", g) })
		}
		update(func(tx *store.Tx) error { return tx.SetTopology(ctx, "ib0", &topology.Graph{}) })
		update(func(tx *store.Tx) error { return tx.DropTopology(ctx, "ib0") })
		update(func(tx *store.Tx) error {
			all, err := tx.Topology(ctx)
			if err != nil || len(all) != 1 || all[0].Fabric != "ib1" || all[0].TakenAt.IsZero() || !reflect.DeepEqual(all[0].Graph, want) {
				t.Errorf("%+v %v", all, err)
			}
			return nil
		})
	})
}
