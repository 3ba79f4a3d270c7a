package admission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/node"
)

// wire gives machines a port each on fabric ib0, numbered from 1 in their order, whose tables have room for capacity keys.
func (d fixture) wire(capacity int, machines ...string) {
	d.Helper()
	err := d.db.Update(d.Context(), func(tx *core.Tx) error {
		ctx := d.Context()
		var ports []fabrics.Port
		var seen []fabrics.PortSeen
		for i := range machines {
			guid := fabric.GUID(i + 1)
			ports = append(ports, fabrics.Port{GUID: guid, Adapter: guid + 100, Number: 1, Name: "node"})
			seen = append(seen, fabrics.PortSeen{GUID: guid, Capacity: capacity, Answered: true})
		}
		err := errors.Join(fabrics.Add(ctx, tx,
			fabrics.Fabric{ID: "ib0", Name: "ib0", Driver: "fake", Managers: []fabric.GUID{99}}),
			fabrics.PutPorts(ctx, tx, "ib0", ports, ""))
		for i, m := range machines {
			err = errors.Join(err, fabrics.GivePort(ctx, tx, fabric.GUID(i+1), m, false))
		}
		return errors.Join(err, fabrics.SaveSeen(ctx, tx, "ib0", 1, seen))
	})
	if err != nil {
		d.Fatal(err)
	}
}

// sitePartition puts the site's own partition on ports, which takes an entry of each one's table.
func (d fixture) sitePartition(name string, ports ...fabric.GUID) {
	d.Helper()
	members := map[fabric.GUID]fabric.Membership{}
	for _, p := range ports {
		members[p] = fabric.Full
	}
	err := d.db.Update(d.Context(), func(tx *core.Tx) error {
		f, err := fabrics.Get(d.Context(), tx, "ib0")
		if err != nil {
			return err
		}
		return fabrics.PutSitePartition(d.Context(), tx, f, name, false, members)
	})
	if err != nil {
		d.Fatal(err)
	}
}

func TestAMachineWithAFullTableIsNotThereForANode(t *testing.T) {
	d := newLeafFixture(t, 2, 3)
	d.wire(5, "a0", "a1", "a2") // three keys beside the default one and the one that stays free
	for i := range 3 {
		d.sitePartition(fmt.Sprint("site", i), 1, 3)
	}
	plan, err := d.plan(existing("cfd", "nodes: 1"))
	if err != nil || machinesOf(plan) != "a1" {
		t.Fatalf("%v: %v", plan, err)
	}
	_, err = d.plan(existing("cfd", "nodes: 2"))
	refusal(t, err, admission.NoCapacity,
		"fabric ib0: partition table of machine a0 is full (3 of 3), and 1 other machine like it")
	d.create(existing("cfd", "nodes: 1"))
	_, err = d.plan(existing("more", "nodes: 1"))
	refusal(t, err, admission.NoCapacity, "partition table of machine a0 is full")
}

// TestTheLastEntryGoesToOneOfTwo has two clusters that were both promised the last entry of a machine's table.
func TestTheLastEntryGoesToOneOfTwo(t *testing.T) {
	d := newLeafFixture(t, 2, 1)
	d.wire(4, "a0")
	d.sitePartition("one", 1)
	plan, err := d.plan(existing("cfd", "nodes: 1"))
	if err != nil {
		t.Fatal(err)
	}
	d.sitePartition("two", 1) // after the plan, before it is carried out
	err = d.db.Update(t.Context(), func(tx *core.Tx) error {
		_, err := d.CarryOut(t.Context(), tx, plan, "admin", 0)
		return err
	})
	refusal(t, err, admission.NoCapacity, "fabric ib0: partition table of machine a0 is full (2 of 2)")
}

// TestAMachineIsNotGivenOnBeforeItsPortWasSeenWithoutTheKey has a node that is gone while its machine's port was not read since.
func TestAMachineIsNotGivenOnBeforeItsPortWasSeenWithoutTheKey(t *testing.T) {
	d := newLeafFixture(t, 2, 1)
	d.wire(128, "a0")
	c := d.create(existing("cfd", "nodes: 1"))
	if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
		return fabrics.Leave(t.Context(), tx, nodeOf(t, tx, c, "cpu1").ID)
	}); err != nil {
		t.Fatal(err)
	}
	lose(t, d, c, "other", "cpu1")
	refilled := func() (placed []node.Node, refused error) {
		err := d.db.Update(t.Context(), func(tx *core.Tx) (err error) {
			placed, refused, err = d.Refill(t.Context(), tx, c)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return placed, refused
	}
	if placed, refused := refilled(); len(placed) != 0 || refused == nil ||
		!strings.Contains(refused.Error(), "was not yet seen without the key of its last cluster") {
		t.Fatalf("%v: %v", placed, refused)
	}
	if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
		ports, err := fabrics.Unclean(t.Context(), tx, "a0")
		if err != nil || len(ports) != 1 {
			t.Fatal(ports, err)
		}
		return fabrics.DropMembers(t.Context(), tx, []fabrics.Member{ports[0].Member}) // as who has read the port does
	}); err != nil {
		t.Fatal(err)
	}
	if placed, refused := refilled(); len(placed) != 1 || refused != nil {
		t.Errorf("%v: %v", placed, refused)
	}
}

func nodeOf(t *testing.T, tx *core.Tx, c cluster.Cluster, name string) node.Node {
	t.Helper()
	nodes, err := node.Of(t.Context(), tx, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("cluster %s has no node %s", c.Name, name)
	return node.Node{}
}

// TestAMachineLiesWhereAnOperatorSaysThatItsPortIs has machines in which no inspection finds an adapter.
func TestAMachineLiesWhereAnOperatorSaysThatItsPortIs(t *testing.T) {
	d := newLeafFixture(t, 1)
	var ports []fabrics.Port
	for i, name := range []string{"a0", "a1", "a2", "a3"} {
		d.add(inventory.Machine{ID: name, Name: name, Substrate: "metal", Facts: inventory.Facts{CPUs: 64, Arch: "amd64"}})
		ports = append(ports, fabrics.Port{GUID: fabrictest.HostPort(i), Adapter: fabrictest.HostNode(i)})
	}
	d.snapshot("ib0", fabrictest.FatTree(4, 2, 1))
	err := d.db.Update(d.Context(), func(tx *core.Tx) error {
		ctx := d.Context()
		err := errors.Join(fabrics.Add(ctx, tx,
			fabrics.Fabric{ID: "ib0", Name: "ib0", Driver: "fake", Managers: []fabric.GUID{99}}),
			fabrics.PutPorts(ctx, tx, "ib0", ports, ""))
		for i, name := range []string{"a0", "a3", "a1", "a2"} { // a0 and a3 are on one leaf
			err = errors.Join(err, fabrics.GivePort(ctx, tx, fabrictest.HostPort(i), name, true))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := d.plan(existing("cfd", "nodes: 2, placement: same-switch"))
	if err != nil || machinesOf(plan) != "a0 a3" {
		t.Errorf("%v: %v", plan, err)
	}
}
