package admission_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/place"
	"muster/internal/spec"
)

const guestSite = `
site: home
defaults: {project: default, image: debian13-hpc, class: small, head_class: small}
classes:
  - {name: small, select: ["substrate = local"], price: 0.10 EUR}
  - {name: vm, select: ["substrate = vm"], hypervisor: true, vm: {cpus: 1, memory: 1GiB}, price: 0.05 EUR}
  - {name: cheap, select: ["substrate = vm"], hypervisor: true, overcommit: {cpu: 2}, vm: {cpus: 1, memory: 1GiB}}
`

// hypervisor is a hypervisor of one socket, with so many cores and GiB of memory. It keeps one core if it has four or more, and
// the 16th part of the memory.
func hypervisor(cores, memory int, devices ...inventory.Device) inventory.Facts {
	f := inventory.Facts{Host: "box", Arch: "amd64", CPUs: cores, Cores: cores, MemoryMiB: memory << 10, Devices: devices}
	var cpus []int
	for i := range cores {
		f.Layout = append(f.Layout, inventory.Core{ID: i, CPUs: []int{i}})
		cpus = append(cpus, i)
	}
	f.NUMA = []inventory.NUMANode{{CPUs: inventory.CPUList(cpus), MemoryMiB: memory << 10, Distances: []int{10}}}
	return f
}

func gpu(number int) inventory.Device {
	return inventory.Device{Kind: "gpu", PCI: fmt.Sprintf("0000:4%d:00.0", number), Group: fmt.Sprint(number),
		Path: []string{fmt.Sprintf("0000:00:0%d.0", number)}}
}

// newGuestFixture has heads' places, h1 and on, and hypervisors, hv1 and on.
func newGuestFixture(t *testing.T, url string, heads int, hosts ...inventory.Facts) fixture {
	t.Helper()
	var machines []offer
	for i := range heads {
		machines = append(machines, offer{fmt.Sprintf("h%d", i+1), 2, "amd64", machine.Available, "local"})
	}
	d := newFixtureAt(t, cmp.Or(url, t.TempDir()+"/db"), guestSite, machines...)
	for i, facts := range hosts {
		d.add(inventory.Machine{ID: fmt.Sprintf("hv%d", i+1), Name: fmt.Sprintf("hv%d", i+1), Substrate: "vm", Hosts: true,
			Facts: facts})
	}
	return d
}

// add makes a machine available.
func (d fixture) add(m inventory.Machine) {
	d.Helper()
	if err := d.db.Update(d.Context(), func(tx *core.Tx) error { return machine.Add(d.Context(), tx, m) }); err != nil {
		d.Fatal(err)
	}
	claims, err := d.db.Claim(d.Context(), machine.Kind, "test", time.Minute, 100)
	if err != nil {
		d.Fatal(err)
	}
	for _, claim := range claims {
		if err := d.db.Update(d.Context(), func(tx *core.Tx) error {
			return tx.Settle(d.Context(), claim, core.Settlement{Phase: machine.Available, Never: true})
		}); err != nil {
			d.Fatal(err)
		}
	}
}

func (d fixture) machines() []machine.Machine {
	d.Helper()
	var all []machine.Machine
	if err := d.db.View(d.Context(), func(tx *core.Tx) (err error) {
		all, err = machine.List(d.Context(), tx)
		return err
	}); err != nil {
		d.Fatal(err)
	}
	return all
}

// sound fails the test if guests have more than their hosts do.
func (d fixture) sound() {
	d.Helper()
	held := map[string][]place.Allocation{}
	all := d.machines()
	for _, m := range all {
		if m.Allocation != nil {
			held[m.Host] = append(held[m.Host], *m.Allocation)
		}
	}
	for _, m := range all {
		if !m.Hosts {
			continue
		}
		cores, memory := m.Facts.Kept()
		if err := (place.Room{Facts: m.Facts, Keep: cores, KeepMiB: memory, Held: held[m.ID]}).Check(); err != nil {
			d.Errorf("host %s: %v", m.Name, err)
		}
	}
}

func placedOn(p *admission.Plan) string {
	var words []string
	for _, n := range p.Add {
		words = append(words, n.Name+"="+n.Machine.Name)
	}
	return strings.Join(words, " ")
}

func refused(t *testing.T, err error) *admission.Refusal {
	t.Helper()
	var r *admission.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("no refusal: %v", err)
	}
	return r
}

func TestIsolationVMIsOneLine(t *testing.T) {
	d := newGuestFixture(t, "", 1, hypervisor(4, 16))
	plan, err := d.plan("name: a\nisolation: vm\nnodes: 2\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := placedOn(plan); got != "head=h1 n1=hv1-g1 n2=hv1-g2" {
		t.Error(got)
	}
	if q := plan.Spec.Queues[0]; q.Class != "vm" || q.VM == nil || q.VM.CPUs != 1 || q.VM.Memory != "1GiB" {
		t.Errorf("resolved to %+v", q)
	}
	if got := plan.Price.String(); got != "0.20 EUR" {
		t.Error("price", got)
	}
	f := plan.Add[1].Machine.Facts
	if f.CPUs != 1 || f.Cores != 1 || f.MemoryMiB != 1024 || f.Arch != "amd64" || len(f.NUMA) != 1 {
		t.Errorf("the guest has %+v", f)
	}
}

func TestGuestsAreReservedWithTheirNodes(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		d := newGuestFixture(t, url, 2, hypervisor(4, 16), hypervisor(4, 16))
		d.create("name: a\nqueues: [{name: cpu, class: vm, nodes: 4, vm: {cpus: 1, memory: 2GiB}}]\n")
		d.sound()
		guests := 0
		for _, m := range d.machines() {
			if m.Host != "" {
				guests++
				if m.Allocation == nil || m.Holder == "" || m.Phase != machine.Reserved {
					t.Errorf("guest %+v", m)
				}
			}
		}
		if guests != 4 {
			t.Errorf("%d guests", guests)
		}
		// Three cores of each host are for guests: two are left.
		_, err := d.plan("name: b\nqueues: [{name: cpu, class: vm, nodes: 3, vm: {cpus: 1, memory: 1GiB}}]\n")
		if r := refused(t, err); r.Kind != admission.NoCapacity || !strings.Contains(r.Error(), "class vm: 3 asked, 2 fit") ||
			offered(r, admission.LaterStart).Kind != "" {
			t.Error(r)
		}
		if _, err := d.plan("name: b\nqueues: [{name: cpu, class: vm, nodes: 2, vm: {cpus: 1, memory: 1GiB}}]\n"); err != nil {
			t.Error(err)
		}
	})
}

func TestOfTwoWhoAskForTheLastDeviceOneHasIt(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		const askers = 4
		d := newGuestFixture(t, url, askers, hypervisor(16, 64, gpu(1), gpu(2)), hypervisor(16, 64, gpu(3)))
		results := make([]error, askers)
		var all sync.WaitGroup
		for i := range askers {
			doc, err := spec.Parse("", fmt.Appendf(nil,
				"name: c%d\nqueues: [{name: gpu, class: vm, nodes: 1, vm: {cpus: 2, memory: 4GiB, devices: {gpu: 1}}}]\n", i))
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				results[i] = d.db.Update(context.Background(), func(tx *core.Tx) error {
					plan, err := d.Create(context.Background(), tx, doc.Cluster)
					if err == nil {
						_, err = d.CarryOut(context.Background(), tx, plan, "admin", 0)
					}
					return err
				})
			})
		}
		all.Wait()
		served := 0
		for _, err := range results {
			if err == nil {
				served++
			} else if r := refused(t, err); !strings.Contains(r.Error(), "gpu") {
				t.Error(r)
			}
		}
		if served != 3 {
			t.Errorf("%d of %d have one of 3 GPUs: %v", served, askers, results)
		}
		d.sound()
	})
}

func TestAClassMaySayThatGuestsShareCores(t *testing.T) {
	d := newGuestFixture(t, "", 4, hypervisor(2, 16))
	d.create("name: a\nqueues: [{name: cpu, class: cheap, nodes: 2}]\n")
	cores := map[int]bool{}
	for _, m := range d.machines() {
		if m.Allocation != nil {
			cores[m.Allocation.Cells[0].Cores[0]] = true
		}
	}
	if len(cores) != 2 {
		t.Errorf("two guests are on %d of two cores", len(cores))
	}
	d.create("name: c\nqueues: [{name: cpu, class: cheap, nodes: 2}]\n")
	d.sound()
	if _, err := d.plan("name: b\nqueues: [{name: cpu, class: cheap, nodes: 1}]\n"); refused(t, err).
		Kind != admission.NoCapacity {
		t.Error(err)
	}
	if _, err := d.plan("name: b\nqueues: [{name: cpu, class: vm, nodes: 1}]\n"); refused(t, err).Kind != admission.NoCapacity {
		t.Error("a shared core for itself:", err)
	}
}

func TestMetalAndGuestsInOneClusterAndInsteadOfEachOther(t *testing.T) {
	d := newGuestFixture(t, "", 3, hypervisor(4, 16))
	plan, err := d.plan("name: a\nqueues:\n  - {name: fast, class: small, nodes: 1}\n  - {name: part, class: vm, nodes: 1}\n")
	if err != nil || placedOn(plan) != "head=h1 fast1=h2 part1=hv1-g1" {
		t.Fatal(placedOn(plan), err)
	}
	plan, err = d.plan("name: a\nqueues:\n  - {name: cpu, class: small, nodes: 4, or: [vm]}\n")
	if err != nil || placedOn(plan) != "head=h1 cpu1=h2 cpu2=h3 cpu3=hv1-g1 cpu4=hv1-g2" {
		t.Fatal(placedOn(plan), err)
	}
	plan, err = d.plan("name: a\nqueues:\n  - {name: cpu, class: vm, nodes: 5, or: [small]}\n")
	if err != nil || placedOn(plan) != "head=h1 cpu1=hv1-g1 cpu2=hv1-g2 cpu3=hv1-g3 cpu4=h2 cpu5=h3" {
		t.Fatal(placedOn(plan), err)
	}
	_, err = d.plan("name: a\nqueues:\n  - {name: cpu, class: vm, nodes: 6, or: [small]}\n")
	if text := refused(t, err).Error(); !strings.Contains(text, "class vm: 6 asked, 3 fit") ||
		!strings.Contains(text, "instead, class small") {
		t.Error(text)
	}
}

func TestClassesAndIsolationMustAgreeAboutParts(t *testing.T) {
	d := newGuestFixture(t, "", 2, hypervisor(4, 16))
	for file, want := range map[string]string{
		"name: a\nisolation: vm\nqueues: [{name: cpu, class: small, nodes: 1}]\n":                               "queues[0].class: class small has whole machines, but isolation is vm (classes of virtual machines: there are vm, cheap)",
		"name: a\nisolation: local\nqueues: [{name: cpu, class: small, or: [vm], nodes: 1}]\n":                  "queues[0].or[0]: class vm makes virtual machines, but isolation is local",
		"name: a\nqueues: [{name: cpu, class: small, nodes: 1, vm: {cpus: 1, memory: 1GiB}}]\n":                 "queues[0].vm: class small makes nodes of whole machines",
		"name: a\nhead: {class: vm}\nnodes: 1\n":                                                                "head.class: class vm makes virtual machines; a head cannot be one",
		"name: a\nqueues: [{name: cpu, class: vm, nodes: 1}]\nlease: {start: 2100-01-01T00:00:00Z}\n":           "lease.start: not available yet: reserving virtual machines",
		"name: a\nqueues: [{name: cpu, class: vm, nodes: 1, vm: {cpus: 1, memory: 64GiB}}]\n":                   "memory",
		"name: a\nqueues: [{name: cpu, class: vm, nodes: 1, vm: {cpus: 1, memory: 1GiB, devices: {gpu: 1}}}]\n": "gpu",
	} {
		if _, err := d.plan(file); !strings.Contains(refused(t, err).Error(), want) {
			t.Errorf("%s\n%v, want %q", file, err, want)
		}
	}
}

func TestWithoutAHypervisorTheRefusalSaysHowToGetOne(t *testing.T) {
	d := newGuestFixture(t, "", 1)
	_, err := d.plan("name: a\nisolation: vm\nnodes: 1\n")
	if text := refused(t, err).Error(); !strings.Contains(text, "but it has no hypervisors") ||
		!strings.Contains(text, "--local-hypervisor") {
		t.Error(text)
	}
}

func TestAnotherShapeReplacesTheQueuesNodes(t *testing.T) {
	d := newGuestFixture(t, "", 1, hypervisor(8, 32))
	c := d.create("name: a\nqueues: [{name: cpu, class: vm, nodes: 2, vm: {cpus: 1, memory: 2GiB}}]\n")
	for text, want := range map[string][]string{
		"name: a\nqueues: [{name: cpu, class: vm, nodes: 2, vm: {cpus: 2, memory: 2GiB}}]\n":    {"cpu1", "cpu2"},
		"name: a\nqueues: [{name: cpu, class: vm, nodes: 2, vm: {cpus: 1, memory: 2048MiB}}]\n": nil,
	} {
		doc, err := spec.Parse("", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var plan *admission.Plan
		if err := d.db.View(t.Context(), func(tx *core.Tx) (err error) {
			plan, err = d.Change(t.Context(), tx, c, doc.Cluster)
			return err
		}); err != nil || !slices.Equal(plan.Release, want) {
			t.Errorf("%s: releases %v, want %v: %v", text, plan.Release, want, err)
		}
	}
}

func TestAReplacementStaysAwayFromTheHostThatFailedItIfItCan(t *testing.T) {
	for _, hosts := range []int{1, 2} {
		d := newGuestFixture(t, "", 1, slices.Repeat([]inventory.Facts{hypervisor(4, 16)}, hosts)...)
		c := d.create("name: a\nisolation: vm\nnodes: 1\n")
		var placed []node.Node
		if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
			nodes, err := node.Of(t.Context(), tx, c.ID)
			if err != nil {
				return err
			}
			if err := errors.Join(host.NoteFailure(t.Context(), tx, nodes[1].ID),
				node.LeaveMachine(t.Context(), tx, nodes[1])); err != nil {
				return err
			}
			placed, _, err = d.Refill(t.Context(), tx, c)
			return err
		}); err != nil || len(placed) != 1 {
			t.Fatal(placed, err)
		}
		if at := placed[0].Machine; !strings.HasPrefix(at, fmt.Sprintf("hv%d-", hosts)) {
			t.Errorf("of %d hosts it went to %s", hosts, at)
		}
	}
}

func TestAHostHasRoomUntilItsLastCoreIsHeld(t *testing.T) {
	d := newGuestFixture(t, "", 1, hypervisor(4, 16), hypervisor(4, 16))
	class, _ := d.Catalogue.Find("vm")
	if got := d.Roomy(class, d.machines()); len(got) != 2 {
		t.Error("at first:", got)
	}
	d.create("name: a\nqueues: [{name: cpu, class: vm, nodes: 5}]\n")
	if got := d.Roomy(class, d.machines()); len(got) != 1 {
		t.Error("with one core left:", got)
	}
}

func TestARefusalCountsHostsThatAreSetApart(t *testing.T) {
	d := newGuestFixture(t, "", 1, hypervisor(4, 16))
	if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
		return machine.Want(t.Context(), tx, "hv1", machine.ForMaintenance)
	}); err != nil {
		t.Fatal(err)
	}
	_, err := d.plan("name: a\nisolation: vm\nnodes: 1\n")
	if text := refused(t, err).Error(); !strings.Contains(text, "class vm: 1 asked, 0 fit, 1 host in maintenance") {
		t.Error(text)
	}
}

func TestADeviceThatIsLostIsGivenToNobody(t *testing.T) {
	broken := gpu(1)
	broken.Lost = "it does not answer"
	d := newGuestFixture(t, "", 2, hypervisor(16, 64, broken, gpu(2)))
	for i, served := range []bool{true, false} {
		doc, err := spec.Parse("", fmt.Appendf(nil,
			"name: c%d\nqueues: [{name: gpu, class: vm, nodes: 1, vm: {cpus: 2, memory: 4GiB, devices: {gpu: 1}}}]\n", i))
		if err != nil {
			t.Fatal(err)
		}
		err = d.db.Update(t.Context(), func(tx *core.Tx) error {
			plan, err := d.Create(t.Context(), tx, doc.Cluster)
			if err == nil {
				_, err = d.CarryOut(t.Context(), tx, plan, "admin", 0)
			}
			return err
		})
		if (err == nil) != served {
			t.Errorf("guest %d: %v", i+1, err)
		}
	}
	for _, m := range d.machines() {
		if m.Allocation != nil && slices.Contains(m.Allocation.Devices, broken.PCI) {
			t.Errorf("guest %s has the lost GPU", m.Name)
		}
	}
}
