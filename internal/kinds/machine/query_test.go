package machine_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
)

func TestMachinesOfAClusterAreFoundByIndex(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		kindstest.UsesIndex(t, kindstest.Open(t, url), "node_by_name|node_name", machine.UnderQuery, "c1")
	})
}

func TestMachinesUnderAClusterAreThoseOfItsNodes(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 20)
		kindstest.AddCluster(t, s, "c1", "alpha")
		kindstest.AddCluster(t, s, "c2", "beta")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(kindstest.AddNode(ctx, tx, "n1", "c1", "head", 1, "m1"),
				kindstest.AddNode(ctx, tx, "n2", "c1", "n1", 2, "m2"), kindstest.AddNode(ctx, tx, "n3", "c2", "head", 1, "m3"))
		})
		since := kindstest.Costs(t, s)
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			under, err := machine.Under(ctx, tx, "c1")
			if err == nil && (len(under) != 2 || under["m1"].Name != "local-1" || under["m2"].Name != "local-2") {
				t.Errorf("%v", slices.Sorted(maps.Keys(under)))
			}
			return err
		})
		if cost := since(); cost.Rows != 2 {
			t.Errorf("%d rows were read", cost.Rows)
		}
	})
}
