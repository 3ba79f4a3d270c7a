package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

const ib0 = "f1"

// addFabric adds one whose ports 1, 2 … are those of machines m1, m2 …
func addFabric(t *testing.T, s *store.Store, machines int) {
	t.Helper()
	addMachines(t, s, machines)
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.AddFabric(ctx, store.Fabric{ID: ib0, Name: "ib0", Driver: "fake", Config: map[string]string{"a": "b"}, Managers: []fabric.GUID{99}}); err != nil {
			return err
		}
		var ports []store.FabricPort
		for i := range machines {
			ports = append(ports, store.FabricPort{GUID: fabric.GUID(i + 1), Adapter: fabric.GUID(100 + i), Number: 1, Name: "node"})
		}
		if err := tx.PutPorts(ctx, ib0, ports, "vendid=0x2c9"); err != nil {
			return err
		}
		for i := range machines {
			if err := tx.GivePort(ctx, fabric.GUID(i+1), machineID(i+1), false); err != nil {
				return err
			}
		}
		return nil
	})
}

func machineID(i int) string { return []string{"", "m1", "m2", "m3", "m4"}[i] }

// join places a node of a cluster on a machine and makes its ports members.
func join(ctx context.Context, tx *store.Tx, node, cluster, machine string, slot int) error {
	if err := addNode(ctx, tx, node, cluster, node, slot, machine); err != nil {
		return err
	}
	m, err := tx.Machine(ctx, machine)
	if err != nil {
		return err
	}
	var held []string
	for _, d := range m.Facts.Devices {
		held = append(held, d.PCI)
	}
	return tx.JoinFabrics(ctx, node, cluster, m.Machine, held)
}

func partitions(t *testing.T, s *store.Store) (all []store.Partition) {
	t.Helper()
	view(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
		all, err = tx.Partitions(ctx, ib0)
		return err
	})
	return all
}

func TestANodesPortsJoinItsClustersPartition(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addFabric(t, s, 3)
		addCluster(t, s, "c1", "one")
		addCluster(t, s, "c2", "two")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(join(ctx, tx, "n1", "c1", "m1", 3), join(ctx, tx, "n2", "c1", "m2", 4), join(ctx, tx, "n3", "c2", "m3", 3))
		})
		all := partitions(t, s)
		if len(all) != 2 || all[0].Key != 1 || all[0].Cluster != "one" || len(all[0].Members) != 2 || all[1].Key != 2 || all[1].Members[0].GUID != 3 {
			t.Fatalf("%+v", all)
		}
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			f, err := tx.Fabric(ctx, "ib0")
			if err != nil || f.Revision != 4 || f.Managers[0] != 99 || f.Config["a"] != "b" || f.Phase != store.Pending {
				t.Errorf("%+v: %v", f, err)
			}
			ports, err := tx.NodePorts(ctx, "n2")
			if err != nil || len(ports) != 1 || ports[0].Key != 1 || ports[0].Told() || ports[0].Since != 3 || ports[0].Seen.Answered || ports[0].Fabric != "ib0" {
				t.Errorf("%+v: %v", ports, err)
			}
			return nil
		})
	})
}

func TestAPortIsInOneClusterUntilItWasSeenWithoutItsKey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addFabric(t, s, 1)
		addCluster(t, s, "c1", "one")
		addCluster(t, s, "c2", "two")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := join(ctx, tx, "n1", "c1", "m1", 3); err != nil {
				return err
			}
			n, err := tx.Node(ctx, "n1")
			if err != nil {
				return err
			}
			return errors.Join(tx.LeaveFabrics(ctx, "n1"), tx.LeaveFabrics(ctx, "n1"), tx.LeaveMachine(ctx, n))
		})
		if err := s.Update(t.Context(), func(tx *store.Tx) error { return join(t.Context(), tx, "n2", "c2", "m1", 3) }); err == nil {
			t.Fatal("a port that may still hold a key is another cluster's")
		}
		p := partitions(t, s)[0]
		if p.Members[0].Wanted || p.Members[0].Since != 3 {
			t.Errorf("%+v", p)
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.FreeKeys(ctx, ib0, nil) })
		if len(partitions(t, s)) != 1 {
			t.Error("the key of a cluster that lives is free")
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.DropMembers(ctx, p.Members) })
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return join(ctx, tx, "n3", "c2", "m1", 5) })
		if all := partitions(t, s); len(all) != 2 || all[1].Key != 2 {
			t.Errorf("%+v", all)
		}
	})
}

func TestAKeyIsFreeWhenItsClusterIsDeletedAndNoPortHoldsIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addFabric(t, s, 1)
		addCluster(t, s, "c1", "one")
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return join(ctx, tx, "n1", "c1", "m1", 3) })
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.LeaveFabrics(ctx, "n1") })
		p := partitions(t, s)[0]
		end(t, s, store.ClusterKind, store.Deleted)
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.FreeKeys(ctx, ib0, nil) })
		if len(partitions(t, s)) != 1 {
			t.Fatal("its key is free while a port was not seen without it")
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.DropMembers(ctx, p.Members), tx.FreeKeys(ctx, ib0, map[fabric.Key]bool{p.Key: true}))
		})
		if len(partitions(t, s)) != 1 {
			t.Fatal("its key is free while a port holds it")
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.FreeKeys(ctx, ib0, nil) })
		if len(partitions(t, s)) != 0 {
			t.Fatal("its key is not free")
		}
	})
}

// end settles all rows of a kind in a phase.
func end(t *testing.T, s *store.Store, kind store.Kind, phase store.Phase) {
	t.Helper()
	claims, err := s.Claim(t.Context(), kind, "test", 1000000, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.Settle(ctx, c, store.Settlement{Phase: phase, Never: true})
		})
	}
}

func TestAFullTableTakesNoOtherKey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addFabric(t, s, 2)
		addCluster(t, s, "c1", "one")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			f, err := tx.Fabric(ctx, ib0)
			if err != nil {
				return err
			}
			seen := []store.PortSeen{{GUID: 1, Capacity: 4, Answered: true, Entries: []fabric.Entry{0x7fff}}, {GUID: 2, Capacity: 5, Answered: true}}
			return errors.Join(tx.SaveSeen(ctx, ib0, 1, seen), tx.PutSitePartition(ctx, f, "storage", true, map[fabric.GUID]fabric.Membership{50: fabric.Full}),
				tx.PutSitePartition(ctx, f, "managers", false, map[fabric.GUID]fabric.Membership{1: fabric.Full, 2: fabric.Full}))
		})
		err := s.Update(t.Context(), func(tx *store.Tx) error { return join(t.Context(), tx, "n1", "c1", "m1", 3) })
		full := (*store.TableFull)(nil)
		if !errors.As(err, &full) || full.Error() != "fabric ib0: partition table of machine local-1 is full (2 of 2)" {
			t.Errorf("%v", err)
		}
		end(t, s, store.MachineKind, store.Available)
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			machines, err := tx.Machines(ctx)
			if err != nil {
				return err
			}
			unfit, err := tx.Unfit(ctx, machines)
			if err != nil || len(unfit) != 1 || unfit["m1"] != full.Error() {
				t.Errorf("%v: %v", unfit, err)
			}
			return nil
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return join(ctx, tx, "n2", "c1", "m2", 4) })
	})
}

func TestWhatIsReadFromPortsIsKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addFabric(t, s, 1)
		save := func(p store.PortSeen) store.PortSeen {
			update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.SaveSeen(ctx, ib0, 7, []store.PortSeen{p}) })
			var seen map[fabric.GUID]store.PortSeen
			view(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
				seen, err = tx.PortsSeen(ctx, ib0)
				return err
			})
			return seen[p.GUID]
		}
		odd := save(store.PortSeen{GUID: 1, Capacity: 64, Answered: true, Entries: []fabric.Entry{0x7fff, 0x8002}, Surplus: []fabric.Entry{0x8002}})
		if odd.OddAt.IsZero() || !slices.Equal(odd.Surplus, []fabric.Entry{0x8002}) || odd.Capacity != 64 || !odd.Answered {
			t.Errorf("%+v", odd)
		}
		if still := save(store.PortSeen{GUID: 1, Capacity: 64, Answered: true, Surplus: []fabric.Entry{0x8003}}); !still.OddAt.Equal(odd.OddAt) {
			t.Errorf("%s, was %s", still.OddAt, odd.OddAt)
		}
		if well := save(store.PortSeen{GUID: 1, Capacity: 64}); !well.OddAt.IsZero() || well.Answered {
			t.Errorf("%+v", well)
		}
	})
}

// Guests: ConnectX-3 puts all behind its own ports, later adapters give each function a port.
func TestAGuestJoinsByItsFunctionOrByItsHostsPort(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addCluster(t, s, "c1", "one")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			ports := []store.FabricPort{{GUID: 7, Adapter: 0x64, Number: 1}, {GUID: 8, Adapter: 0x65, Number: 1}}
			return errors.Join(tx.AddFabric(ctx, store.Fabric{ID: ib0, Name: "ib0"}), tx.PutPorts(ctx, ib0, ports, ""))
		})
		for i, device := range []string{"1003", "1017"} {
			hca := inventory.Device{Kind: "hca", PCI: "0000:04:00.0", Vendor: "15b3", ID: device, GUID: fmt.Sprintf("0000:0000:0000:%04x", 0x64+i)}
			host := inventory.Machine{ID: "h" + device, Name: "h" + device, Substrate: "vm", Hosts: true, Facts: inventory.Facts{Devices: []inventory.Device{hca, {Kind: "hca", PCI: "0000:04:00.1", Parent: hca.PCI}}}}
			part := inventory.Device{Kind: "hca", PCI: "0000:04:00.1", Parent: hca.PCI}
			guest := store.Guest{Machine: inventory.Machine{ID: "g" + device, Name: "g" + device, Substrate: "vm", Host: host.ID, Facts: inventory.Facts{Devices: []inventory.Device{part}}}}
			update(t, s, func(ctx context.Context, tx *store.Tx) error {
				return errors.Join(tx.AddMachine(ctx, host), tx.AddGuest(ctx, guest, "for a test"), join(ctx, tx, "n"+device, "c1", guest.ID, 3+i))
			})
		}
		want := map[store.PortKind]fabric.GUID{store.SharedPort: 7, store.FunctionPort: fabric.GuestPort("n1017", 0)}
		members := partitions(t, s)[0].Members
		for _, m := range members {
			if want[m.Kind] != m.GUID {
				t.Errorf("%s: %s", m.Kind, m.GUID)
			}
		}
		if len(members) != 2 {
			t.Errorf("%+v", members)
		}
	})
}

func TestAKeyIsNotGivenAgainBeforeAllOthersWere(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addFabric(t, s, 1)
		for i, c := range []string{"c1", "c2", "c3"} {
			addCluster(t, s, c, c)
			node := "n" + c
			update(t, s, func(ctx context.Context, tx *store.Tx) error { return join(ctx, tx, node, c, "m1", i+3) })
			all := partitions(t, s)
			if len(all) != 1 || int(all[0].Key) != i+1 {
				t.Fatalf("%+v", all)
			}
			update(t, s, func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, node)
				return errors.Join(err, tx.LeaveFabrics(ctx, node), tx.LeaveMachine(ctx, n))
			})
			end(t, s, store.ClusterKind, store.Deleted)
			p := partitions(t, s)[0]
			update(t, s, func(ctx context.Context, tx *store.Tx) error {
				return errors.Join(tx.DropMembers(ctx, p.Members), tx.FreeKeys(ctx, ib0, nil))
			})
		}
	})
}

func TestAnAlarmThatIsRaisedAnewSaysWhatIsWrongNow(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		for _, text := range []string{"nobody answers", "a stranger is in charge"} {
			update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.RaiseAlarmAnew(ctx, "fabric ib0", text) })
		}
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			alarms, err := tx.Alarms(ctx)
			if len(alarms) != 1 || alarms[0].Text != "a stranger is in charge" {
				t.Errorf("%+v", alarms)
			}
			return err
		})
	})
}
