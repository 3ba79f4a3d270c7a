package admission_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/inventory"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/machine"
	"muster/internal/place/topology"
	"muster/internal/spec"
)

const leaves = `
site: home
defaults: {project: default, image: debian13-hpc, class: epyc-ib, head_class: service}
classes:
  - {name: epyc-ib, select: ["cpus = 64"], lead: 0s}
  - {name: xeon-ib, select: ["cpus = 32"], lead: 0s}
  - {name: service, select: ["cpus = 1"], lead: 0s}
  - {name: vm, select: ["substrate = vm"], hypervisor: true, vm: {cpus: 1, memory: 1GiB}}
`

// newLeafFixture has heads' places, h1 and on, and machines of class epyc-ib on leaves, a0 and on, b0 and on …, as many as it
// says.
func newLeafFixture(t *testing.T, heads int, sizes ...int) fixture {
	t.Helper()
	var all []offer
	for i := range heads {
		all = append(all, offer{fmt.Sprintf("h%d", i+1), 1, "amd64", machine.Available, ""})
	}
	d := newFixtureAt(t, t.TempDir()+"/db", leaves, all...)
	for leaf, size := range sizes {
		for i := range size {
			name := fmt.Sprintf("%c%d", 'a'+leaf, i)
			d.add(inventory.Machine{ID: name, Name: name, Substrate: "metal", Facts: inventory.Facts{CPUs: 64, Arch: "amd64"}})
		}
	}
	if len(sizes) > 0 {
		d.cable(sizes...)
	}
	return d
}

// cable imports what hosts on leaves see.
func (d fixture) cable(sizes ...int) {
	d.Helper()
	var text strings.Builder
	for leaf, size := range sizes {
		for i := range size {
			fmt.Fprintf(&text, "machine=%c%d\nlldp.eth0.chassis.mac=00:00:00:00:00:0%d\nlldp.eth0.chassis.name=leaf%02d\n",
				'a'+leaf, i, leaf+1, leaf+1)
		}
	}
	d.snapshot("eth0", text.String())
}

func (d fixture) snapshot(fabric, text string) {
	d.Helper()
	g, err := topology.Read(text)
	if err == nil {
		err = d.db.Update(d.Context(), func(tx *core.Tx) error { return fabrics.SetTopology(d.Context(), tx, fabric, g) })
	}
	if err != nil {
		d.Fatal(err)
	}
}

// machinesOf are the machines of a plan's compute nodes, in the order of the nodes.
func machinesOf(p *admission.Plan) string {
	var names []string
	for _, placed := range p.Add {
		if placed.Queue != "" {
			names = append(names, placed.Machine.Name)
		}
	}
	return strings.Join(names, " ")
}

func existing(name, queue string) string {
	return "name: " + name + "\nqueues: [{name: cpu, " + queue + "}]\n"
}

func TestAQueuesPlacementDecidesWhereItsNodesAre(t *testing.T) {
	d := newLeafFixture(t, 9, 2, 4, 3)
	for queue, want := range map[string]struct{ machines, lay string }{
		"nodes: 3":                     {"a0 a1 b0", "cpu: 3 nodes on 2 leaves (leaf01 2, leaf02 1), at most 2 hops apart"},
		"nodes: 3, placement: compact": {"c0 c1 c2", "cpu: 3 nodes on 1 leaf (leaf03)"},
		"nodes: 6, placement: compact": {"a0 a1 b0 b1 b2 b3",
			"cpu: 6 nodes on 2 leaves (leaf02 4, leaf01 2), at most 2 hops apart"},
		"nodes: 3, placement: spread": {"a0 b0 c0",
			"cpu: 3 nodes on 3 leaves (leaf01 1, leaf02 1, leaf03 1), at most 2 hops apart"},
		"nodes: 4, placement: same-switch": {"b0 b1 b2 b3", "cpu: 4 nodes on 1 leaf (leaf02)"},
	} {
		plan, err := d.plan(existing("cfd", queue))
		if err != nil || machinesOf(plan) != want.machines || len(plan.Layouts) != 1 || plan.Layouts[0].String() != want.lay ||
			plan.Layouts[0].Fabric != "eth0" {
			t.Errorf("%s: %v", queue, err)
			if err == nil {
				t.Error(machinesOf(plan), plan.Layouts)
			}
		}
	}
}

func TestANodeThatComesLaterIsNearTheOthers(t *testing.T) {
	for placement, want := range map[string]string{"compact": "c2", "same-switch": "c2", "spread": "a0"} {
		d := newLeafFixture(t, 9, 2, 4, 3)
		c := d.create(existing("cfd", "nodes: 2, placement: "+placement))
		if placement != "spread" { // leaf01 would be full with them: so let it be leaf03
			d = newLeafFixture(t, 9, 1, 4, 3)
			d.create(existing("other", "nodes: 1, placement: same-switch"))
			c = d.create(existing("cfd", "nodes: 2, placement: "+placement))
		}
		plan, err := d.change(c, func(s *spec.Cluster) { n := 3; s.Queues[0].Min, s.Queues[0].Max = &n, &n })
		if err != nil {
			t.Fatal(placement, err)
		}
		if machinesOf(plan) != want {
			t.Errorf("%s: %s, not %s; %v", placement, machinesOf(plan), want, plan.Layouts)
		}
	}
}

func TestOneSwitchIsRefusedBeforeAnythingIsReserved(t *testing.T) {
	d := newLeafFixture(t, 9, 2, 4, 3)
	_, err := d.plan(existing("cfd", "nodes: 6, placement: same-switch"))
	r := refusal(t, err, admission.NoCapacity, "class epyc-ib: 6 on one switch asked, at most 4 free on one (leaf02)")
	// No other time would help.
	if r.Diagnostics[0].Path != "queues[cpu].max" || r.Diagnostics[0].Hint == "" || len(r.Offers) > 0 {
		t.Errorf("%+v", r.Diagnostics)
	}
	_, err = d.plan(existing("cfd", "nodes: 12, placement: same-switch"))
	refusal(t, err, admission.NoCapacity, "class epyc-ib: 12 asked, 9 free")

	c := d.create(existing("cfd", "nodes: 4, placement: same-switch"))
	_, err = d.change(c, func(s *spec.Cluster) { n := 5; s.Queues[0].Min, s.Queues[0].Max = &n, &n })
	refusal(t, err, admission.NoCapacity, "class epyc-ib: 1 asked on leaf02, where the other nodes are, 0 free there")
}

func TestAQueueOnOneSwitchIsOfOneClass(t *testing.T) {
	d := newLeafFixture(t, 9, 2, 2)
	for i := range 3 {
		name := fmt.Sprintf("c%d", i)
		d.add(inventory.Machine{ID: name, Name: name, Substrate: "metal", Facts: inventory.Facts{CPUs: 32, Arch: "amd64"}})
	}
	d.cable(2, 2, 3)
	for n, want := range map[int]string{2: "a0 a1", 3: "c0 c1 c2"} {
		plan, err := d.plan(existing("cfd", fmt.Sprintf("nodes: %d, placement: same-switch, class: epyc-ib, or: [xeon-ib]", n)))
		if err != nil || machinesOf(plan) != want {
			t.Errorf("%d: %v", n, err)
		}
	}
	_, err := d.plan(existing("cfd", "nodes: 4, placement: same-switch, class: epyc-ib, or: [xeon-ib]"))
	refusal(t, err, admission.NoCapacity,
		"class epyc-ib: 4 on one switch asked, at most 2 free on one (leaf01); instead, class xeon-ib: 4 asked, 3 free")
}

func TestReservationsLeavePlacementToThoseWhoRun(t *testing.T) {
	d := newLeafFixture(t, 9, 2, 4, 3)
	d.create("name: later\nlease: {start: +8h, for: 2h, on_end: delete}\nqueues: [{name: cpu, nodes: 5, placement: " +
		"same-switch}]\n")
	plan, err := d.plan("name: cfd\nlease: {for: 1d, on_end: delete}\nqueues: [{name: cpu, nodes: 3, placement: same-switch}]\n")
	if err != nil || machinesOf(plan) != "c0 c1 c2" {
		t.Error(err, plan)
	}
	plan, err = d.plan("name: cfd\nlease: {start: +8h, for: 2h, on_end: delete}\nqueues: [{name: cpu, nodes: 3, placement: " +
		"same-switch}]\n")
	if err != nil || len(plan.Messages) == 0 ||
		!strings.Contains(strings.Join(plan.Messages, " "), "queue cpu: placement same-switch is decided when the lease starts") {
		t.Error(err, plan)
	}
}

func TestWhereNothingIsKnownOfTheNetworkThatIsSaid(t *testing.T) {
	d := newFixture(t, farm(3, 3)...)
	plan, err := d.plan(existing("cfd", "nodes: 2, class: big, placement: compact"))
	if err != nil || len(plan.Messages) != 1 ||
		!strings.Contains(plan.Messages[0],
			"queue cpu: placement compact has no effect: Muster does not know the switch of any machine of class big") ||
		len(plan.Layouts) > 0 {
		t.Error(plan, err)
	}
	_, err = d.plan(existing("cfd", "nodes: 2, class: big, placement: same-switch"))
	if r := refusal(t, err, admission.NoCapacity,
		"the switch of none of its free machines is known"); !strings.Contains(r.Diagnostics[0].Hint,
		"muster fabric cables import") {
		t.Error(r.Diagnostics)
	}
}

// A chassis' blades have one switch between them, and three on the way to another chassis' (none and two links between
// switches), over four cables that all eight share.
func TestNodesShareAChassisAsFarAsTheyCan(t *testing.T) {
	text, err := os.ReadFile("../../examples/blades.ibnetdiscover")
	if err != nil {
		t.Fatal(err)
	}
	d := newLeafFixture(t, 9)
	for i := range 24 {
		name := fmt.Sprintf("n%02d", (i*7)%24) // nothing in their names says where they are
		guid := fmt.Sprintf("%016x", 0x2c90300500000+i*16)
		d.add(inventory.Machine{ID: name, Name: name, Substrate: "metal",
			Facts: inventory.Facts{CPUs: 64, Arch: "amd64", Devices: []inventory.Device{
				{Kind: "hca", PCI: "0000:03:00.0", GUID: guid[:4] + ":" + guid[4:8] + ":" + guid[8:12] + ":" + guid[12:]},
				{Kind: "hca", PCI: "0000:03:00.1", GUID: "0014:0500:0000:0001", Parent: "0000:03:00.0"},
			}}})
	}
	d.snapshot("ib0", string(text))
	for nodes, want := range map[int]string{
		8: "cpu: 8 nodes on 1 leaf (chassis1)",
		12: "cpu: 12 nodes on 2 leaves (chassis1 8, chassis2 4), at most 2 hops apart; the 8 on chassis1 share 4 cables to " +
			"the others",
	} {
		plan, err := d.plan(existing("cfd", fmt.Sprintf("nodes: %d, placement: compact", nodes)))
		if err != nil || len(plan.Layouts) != 1 || plan.Layouts[0].String() != want {
			t.Errorf("%d: %v %v", nodes, plan.Layouts, err)
		}
	}
	_, err = d.plan(existing("cfd", "nodes: 9, placement: same-switch"))
	refusal(t, err, admission.NoCapacity, "class epyc-ib: 9 on one switch asked, at most 8 free on one (chassis1)")
}

func TestGuestsAreOnHostsOfOneSwitch(t *testing.T) {
	d := newLeafFixture(t, 9)
	for _, name := range []string{"a0", "b0", "b1"} {
		facts := hypervisor(4, 8)
		d.add(inventory.Machine{ID: name, Name: name, Substrate: "vm", Hosts: true, Facts: facts})
	}
	d.cable(1, 2)
	plan, err := d.plan(existing("cfd", "nodes: 5, class: vm, placement: same-switch"))
	if err != nil || len(plan.Layouts) != 1 || plan.Layouts[0].String() != "cpu: 5 nodes on 1 leaf (leaf02)" {
		t.Error(plan, err)
	}
	_, err = d.plan(existing("cfd", "nodes: 7, class: vm, placement: same-switch"))
	refusal(t, err, admission.NoCapacity, "class vm: 7 on one switch asked, and on no switch have hosts room for so many")
	if plan, err = d.plan(existing("cfd", "nodes: 7, class: vm, placement: compact")); err != nil || len(plan.Layouts) != 1 {
		t.Error(plan, err)
	}
}
