package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

const ib0 = "f1"

// addFabric adds one whose ports 1, 2 … are those of machines m1, m2 …
func addFabric(t *testing.T, s *core.Store, machines int) {
	t.Helper()
	kindstest.AddMachines(t, s, machines)
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		if err := fabrics.Add(ctx, tx, fabrics.Fabric{ID: ib0, Name: "ib0", Driver: "fake", Config: map[string]string{"a": "b"},
			Managers: []fabric.GUID{99}}); err != nil {
			return err
		}
		var ports []fabrics.Port
		for i := range machines {
			ports = append(ports, fabrics.Port{GUID: fabric.GUID(i + 1), Adapter: fabric.GUID(100 + i), Number: 1, Name: "node"})
		}
		if err := fabrics.PutPorts(ctx, tx, ib0, ports, "vendid=0x2c9"); err != nil {
			return err
		}
		for i := range machines {
			if err := fabrics.GivePort(ctx, tx, fabric.GUID(i+1), machineID(i+1), false); err != nil {
				return err
			}
		}
		return nil
	})
}

func machineID(i int) string { return []string{"", "m1", "m2", "m3", "m4"}[i] }

// join places a node of a cluster on a machine and makes its ports members.
func join(ctx context.Context, tx *core.Tx, node, cluster, machineID string, slot int) error {
	if err := kindstest.AddNode(ctx, tx, node, cluster, node, slot, machineID); err != nil {
		return err
	}
	m, err := machine.Get(ctx, tx, machineID)
	if err != nil {
		return err
	}
	var held []string
	for _, d := range m.Facts.Devices {
		held = append(held, d.PCI)
	}
	return fabrics.Join(ctx, tx, node, cluster, m.Machine, held)
}

func partitions(t *testing.T, s *core.Store) (all []fabrics.Partition) {
	t.Helper()
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
		all, err = fabrics.Partitions(ctx, tx, ib0)
		return err
	})
	return all
}

func TestANodesPortsJoinItsClustersPartition(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addFabric(t, s, 3)
		kindstest.AddCluster(t, s, "c1", "one")
		kindstest.AddCluster(t, s, "c2", "two")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(join(ctx, tx, "n1", "c1", "m1", 3), join(ctx, tx, "n2", "c1", "m2", 4),
				join(ctx, tx, "n3", "c2", "m3", 3))
		})
		all := partitions(t, s)
		if len(all) != 2 || all[0].Key != 1 || all[0].Cluster != "one" || len(all[0].Members) != 2 || all[1].Key != 2 ||
			all[1].Members[0].GUID != 3 {
			t.Fatalf("%+v", all)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			f, err := fabrics.Get(ctx, tx, "ib0")
			if err != nil || f.Revision != 4 || f.Managers[0] != 99 || f.Config["a"] != "b" || f.Phase != core.Pending {
				t.Errorf("%+v: %v", f, err)
			}
			ports, err := fabrics.NodePorts(ctx, tx, "n2")
			if err != nil || len(ports) != 1 || ports[0].Key != 1 || ports[0].Told() || ports[0].Since != 3 ||
				ports[0].Seen.Answered || ports[0].Fabric != "ib0" {
				t.Errorf("%+v: %v", ports, err)
			}
			return nil
		})
	})
}

func TestAPortIsInOneClusterUntilItWasSeenWithoutItsKey(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addFabric(t, s, 1)
		kindstest.AddCluster(t, s, "c1", "one")
		kindstest.AddCluster(t, s, "c2", "two")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := join(ctx, tx, "n1", "c1", "m1", 3); err != nil {
				return err
			}
			n, err := node.Get(ctx, tx, "n1")
			if err != nil {
				return err
			}
			return errors.Join(fabrics.Leave(ctx, tx, "n1"), fabrics.Leave(ctx, tx, "n1"), node.LeaveMachine(ctx, tx, n))
		})
		if err := s.Update(t.Context(), func(tx *core.Tx) error {
			return join(t.Context(), tx, "n2", "c2", "m1", 3)
		}); err == nil {
			t.Fatal("a port that may still hold a key is another cluster's")
		}
		p := partitions(t, s)[0]
		if p.Members[0].Wanted || p.Members[0].Since != 3 {
			t.Errorf("%+v", p)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return fabrics.FreeKeys(ctx, tx, ib0, nil) })
		if len(partitions(t, s)) != 1 {
			t.Error("the key of a cluster that lives is free")
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return fabrics.DropMembers(ctx, tx, p.Members) })
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return join(ctx, tx, "n3", "c2", "m1", 5) })
		if all := partitions(t, s); len(all) != 2 || all[1].Key != 2 {
			t.Errorf("%+v", all)
		}
	})
}

func TestAKeyIsFreeWhenItsClusterIsDeletedAndNoPortHoldsIt(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addFabric(t, s, 1)
		kindstest.AddCluster(t, s, "c1", "one")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return join(ctx, tx, "n1", "c1", "m1", 3) })
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return fabrics.Leave(ctx, tx, "n1") })
		p := partitions(t, s)[0]
		end(t, s, cluster.Kind, core.Deleted)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return fabrics.FreeKeys(ctx, tx, ib0, nil) })
		if len(partitions(t, s)) != 1 {
			t.Fatal("its key is free while a port was not seen without it")
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(fabrics.DropMembers(ctx, tx, p.Members),
				fabrics.FreeKeys(ctx, tx, ib0, map[fabric.Key]bool{p.Key: true}))
		})
		if len(partitions(t, s)) != 1 {
			t.Fatal("its key is free while a port holds it")
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return fabrics.FreeKeys(ctx, tx, ib0, nil) })
		if len(partitions(t, s)) != 0 {
			t.Fatal("its key is not free")
		}
	})
}

// end settles all rows of a kind in a phase.
func end(t *testing.T, s *core.Store, kind core.Kind, phase core.Phase) {
	t.Helper()
	claims, err := s.Claim(t.Context(), kind, "test", 1000000, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return tx.Settle(ctx, c, core.Settlement{Phase: phase, Never: true})
		})
	}
}

func TestAFullTableTakesNoOtherKey(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addFabric(t, s, 2)
		kindstest.AddCluster(t, s, "c1", "one")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			f, err := fabrics.Get(ctx, tx, ib0)
			if err != nil {
				return err
			}
			seen := []fabrics.PortSeen{{GUID: 1, Capacity: 4, Answered: true, Entries: []fabric.Entry{0x7fff}},
				{GUID: 2, Capacity: 5, Answered: true}}
			return errors.Join(fabrics.SaveSeen(ctx, tx, ib0, 1, seen),
				fabrics.PutSitePartition(ctx, tx, f, "storage", true, map[fabric.GUID]fabric.Membership{50: fabric.Full}),
				fabrics.PutSitePartition(ctx, tx, f, "managers", false,
					map[fabric.GUID]fabric.Membership{1: fabric.Full, 2: fabric.Full}))
		})
		err := s.Update(t.Context(), func(tx *core.Tx) error { return join(t.Context(), tx, "n1", "c1", "m1", 3) })
		full := (*fabrics.TableFull)(nil)
		if !errors.As(err, &full) || full.Error() != "fabric ib0: partition table of machine local-1 is full (2 of 2)" {
			t.Errorf("%v", err)
		}
		end(t, s, machine.Kind, machine.Available)
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			machines, err := machine.List(ctx, tx)
			if err != nil {
				return err
			}
			unfit, err := fabrics.Unfit(ctx, tx, machines)
			if err != nil || len(unfit) != 1 || unfit["m1"] != full.Error() {
				t.Errorf("%v: %v", unfit, err)
			}
			return nil
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return join(ctx, tx, "n2", "c1", "m2", 4) })
	})
}

func TestWhatIsReadFromPortsIsKept(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addFabric(t, s, 1)
		save := func(p fabrics.PortSeen) fabrics.PortSeen {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return fabrics.SaveSeen(ctx, tx, ib0, 7, []fabrics.PortSeen{p})
			})
			var seen map[fabric.GUID]fabrics.PortSeen
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				seen, err = fabrics.PortsSeen(ctx, tx, ib0)
				return err
			})
			return seen[p.GUID]
		}
		odd := save(fabrics.PortSeen{GUID: 1, Capacity: 64, Answered: true, Entries: []fabric.Entry{0x7fff, 0x8002},
			Surplus: []fabric.Entry{0x8002}})
		if odd.OddAt.IsZero() || !slices.Equal(odd.Surplus, []fabric.Entry{0x8002}) || odd.Capacity != 64 || !odd.Answered {
			t.Errorf("%+v", odd)
		}
		if still := save(fabrics.PortSeen{GUID: 1, Capacity: 64, Answered: true,
			Surplus: []fabric.Entry{0x8003}}); !still.OddAt.Equal(odd.OddAt) {
			t.Errorf("%s, was %s", still.OddAt, odd.OddAt)
		}
		if well := save(fabrics.PortSeen{GUID: 1, Capacity: 64}); !well.OddAt.IsZero() || well.Answered {
			t.Errorf("%+v", well)
		}
	})
}

// Guests: ConnectX-3 puts all behind its own ports, later adapters give each function a port.
func TestAGuestJoinsByItsFunctionOrByItsHostsPort(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddCluster(t, s, "c1", "one")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			ports := []fabrics.Port{{GUID: 7, Adapter: 0x64, Number: 1}, {GUID: 8, Adapter: 0x65, Number: 1}}
			return errors.Join(fabrics.Add(ctx, tx, fabrics.Fabric{ID: ib0, Name: "ib0"}),
				fabrics.PutPorts(ctx, tx, ib0, ports, ""))
		})
		for i, device := range []string{"1003", "1017"} {
			hca := inventory.Device{Kind: "hca", PCI: "0000:04:00.0", Vendor: "15b3", ID: device,
				GUID: fmt.Sprintf("0000:0000:0000:%04x", 0x64+i)}
			h := inventory.Machine{ID: "h" + device, Name: "h" + device, Substrate: "vm", Hosts: true,
				Facts: inventory.Facts{Devices: []inventory.Device{hca, {Kind: "hca", PCI: "0000:04:00.1", Parent: hca.PCI}}}}
			part := inventory.Device{Kind: "hca", PCI: "0000:04:00.1", Parent: hca.PCI}
			guest := host.Guest{Machine: inventory.Machine{ID: "g" + device, Name: "g" + device, Substrate: "vm", Host: h.ID,
				Facts: inventory.Facts{Devices: []inventory.Device{part}}}}
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return errors.Join(machine.Add(ctx, tx, h), host.AddGuest(ctx, tx, guest, "for a test"),
					join(ctx, tx, "n"+device, "c1", guest.ID, 3+i))
			})
		}
		want := map[fabrics.PortKind]fabric.GUID{fabrics.SharedPort: 7, fabrics.FunctionPort: fabric.GuestPort("n1017", 0)}
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
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addFabric(t, s, 1)
		for i, c := range []string{"c1", "c2", "c3"} {
			kindstest.AddCluster(t, s, c, c)
			nodeID := "n" + c
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return join(ctx, tx, nodeID, c, "m1", i+3) })
			all := partitions(t, s)
			if len(all) != 1 || int(all[0].Key) != i+1 {
				t.Fatalf("%+v", all)
			}
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				n, err := node.Get(ctx, tx, nodeID)
				return errors.Join(err, fabrics.Leave(ctx, tx, nodeID), node.LeaveMachine(ctx, tx, n))
			})
			end(t, s, cluster.Kind, core.Deleted)
			p := partitions(t, s)[0]
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return errors.Join(fabrics.DropMembers(ctx, tx, p.Members), fabrics.FreeKeys(ctx, tx, ib0, nil))
			})
		}
	})
}

func TestAnAlarmThatIsRaisedAnewSaysWhatIsWrongNow(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		var raised []time.Time
		for _, text := range []string{"nobody answers", "a stranger is in charge", "a stranger is in charge"} {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return host.RaiseAlarmAnew(ctx, tx, "fabric ib0", text)
			})
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
				alarms, err := host.Alarms(ctx, tx)
				raised = append(raised, alarms[0].RaisedAt)
				return err
			})
			time.Sleep(2 * time.Millisecond)
		}
		if !raised[1].After(raised[0]) || !raised[2].Equal(raised[1]) {
			t.Errorf("raised at %v", raised)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			alarms, err := host.Alarms(ctx, tx)
			if len(alarms) != 1 || alarms[0].Text != "a stranger is in charge" {
				t.Errorf("%+v", alarms)
			}
			return err
		})
	})
}
