package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"muster/internal/core"
	"muster/internal/inventory"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
)

func TestWhatAFabricHasIsFoundByIndex(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		owner := "sqlite_autoindex_adapter_1"
		if s.Shared() {
			owner = "adapter_pkey"
		}
		kindstest.UsesIndex(t, s, "fabric_port_fabric", fabrics.HomesQuery, ib0)
		kindstest.UsesIndex(t, s, owner, fabrics.HomesQuery, ib0)
		for table, index := range map[string]string{"fabric_port": "fabric_port_fabric",
			"partition":        "partition_key|partition_cluster|sqlite_autoindex_partition",
			"partition_member": "partition_member_fabric"} {
			kindstest.UsesIndex(t, s, index, `SELECT * FROM `+table+` WHERE `+fabrics.OfFabric("fabric_id", ib0), ib0)
		}
	})
}

func TestAPortsMachineIsTheOneItsAdapterWasFoundIn(t *testing.T) {
	adapter := func(guid string) inventory.Facts {
		return inventory.Facts{Devices: []inventory.Device{{Kind: "gpu", PCI: "0000:05:00.0"},
			{Kind: "hca", PCI: "0000:04:00.0", GUID: guid}}}
	}
	homes := func(t *testing.T, s *core.Store, want string, rows int) {
		t.Helper()
		since := kindstest.Costs(t, s)
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			got, err := fabrics.Homes(ctx, tx, ib0)
			if fmt.Sprint(got) != want {
				t.Errorf("%v, want %s", got, want)
			}
			return err
		})
		if cost := since(); cost.Rows != rows {
			t.Errorf("%d rows were read, want %d: a look must not read the site's machines", cost.Rows, rows)
		}
	}
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 20)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			ports := []fabrics.Port{{GUID: 1, Adapter: 0x100, Number: 1}, {GUID: 2, Adapter: 0x200, Number: 1}}
			return errors.Join(fabrics.Add(ctx, tx, fabrics.Fabric{ID: ib0, Name: "ib0", Driver: "fake"}),
				fabrics.PutPorts(ctx, tx, ib0, ports, ""),
				machine.SaveFacts(ctx, tx, "m7", 1, adapter("0000:0000:0000:0100")),
				machine.Add(ctx, tx, inventory.Machine{ID: "i1", Name: "imported", Substrate: "metal",
					Facts: adapter("0x0000000000000200")}))
		})
		homes(t, s, "[{0x0000000000000001 m7} {0x0000000000000002 i1}]", 2)

		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(fabrics.GivePort(ctx, tx, 1, "m7", false), fabrics.GivePort(ctx, tx, 2, "m1", true))
		})
		homes(t, s, "[]", 0) // one is known, an operator has said the other

		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return machine.SaveFacts(ctx, tx, "m8", 1, adapter("0000:0000:0000:0100")) // the card was moved
		})
		homes(t, s, "[{0x0000000000000001 m8}]", 1)

		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(machine.SaveFacts(ctx, tx, "m7", 2, inventory.Facts{}), machine.Forget(ctx, tx, "m8"),
				fabrics.GivePort(ctx, tx, 2, "", false))
		})
		homes(t, s, "[{0x0000000000000002 i1}]", 1)
	})
}
