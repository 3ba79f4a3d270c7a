package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"muster/internal/admission"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
)

const poolSite = `
site: home
defaults: {project: default, image: debian13-hpc, class: small, head_class: small}
classes:
  - {name: small, select: ["substrate = local"]}
  - {name: metal, select: ["substrate = metal"]}
  - {name: parts, select: ["substrate = metal"], hypervisor: true, vm: {cpus: 2, memory: 4GiB}}
`

// hostingImages has the image that makes hypervisors.
type hostingImages struct{ images }

func (h hostingImages) Image(name string) (admission.Image, error) {
	if name == inventory.HypervisorImage {
		return admission.Image{Name: name, Digest: "sha256:03", Arch: "amd64", Boots: true}, nil
	}
	return h.images.Image(name)
}

// newPool has places of heads, and machines r1 and on that may be whole or hold guests, with three cores for them.
func newPool(t *testing.T, heads, machines int) fixture {
	t.Helper()
	var places []offer
	for i := range heads {
		places = append(places, offer{fmt.Sprintf("h%d", i+1), 2, "amd64", machine.Available, "local"})
	}
	d := newFixtureAt(t, t.TempDir()+"/db", poolSite, places...)
	d.Images = hostingImages{}
	for i := range machines {
		name := fmt.Sprintf("r%d", i+1)
		d.add(inventory.Machine{ID: name, Name: name, Substrate: "metal", Network: "rack",
			MACs: []string{fmt.Sprintf("52:54:00:00:00:%02x", i)}, Facts: hypervisor(4, 16)})
	}
	return d
}

func TestAFreeMachineHoldsGuestsAndIsNoLongerFree(t *testing.T) {
	d := newPool(t, 3, 2)
	d.create("name: a\nqueues: [{name: q, class: parts, nodes: 1}]\n")
	d.sound()
	onDemand := map[string]bool{}
	for _, m := range d.machines() {
		onDemand[m.Name] = m.Hosts
		if m.Name == "r1" && (m.Free() || !m.HostsOnDemand()) {
			t.Errorf("it is %+v", m)
		}
	}
	if !onDemand["r1"] || onDemand["r2"] {
		t.Errorf("turned: %v", onDemand)
	}
	plan, err := d.plan("name: b\nqueues: [{name: q, class: metal, nodes: 1}]\n")
	if err != nil || placedOn(plan) != "head=h2 q1=r2" {
		t.Errorf("a whole machine: %v, %v", plan, err)
	}
	_, err = d.plan("name: b\nqueues: [{name: q, class: metal, nodes: 2}]\n")
	if r := refused(t, err); !strings.Contains(r.Error(), "class metal: 2 asked, 1 free, 1 ") {
		t.Errorf("two whole machines: %v", r)
	}
}

func TestOnePlanTakesNoMachineTwice(t *testing.T) {
	d := newPool(t, 2, 2)
	c := d.create("name: a\nqueues: [{name: w, class: metal, nodes: 1}, {name: p, class: parts, nodes: 1}]\n")
	whole, host := "", ""
	for _, m := range d.machines() {
		if m.HolderName == c.Name+"/w1" {
			whole = m.Name
		}
		if m.Hosts {
			host = m.Name
		}
	}
	if whole == "" || host == "" || whole == host {
		t.Errorf("whole is %s, the host is %s", whole, host)
	}
	_, err := d.plan("name: b\nqueues: [{name: w, class: metal, nodes: 1}]\n")
	refused(t, err)
}

func TestNoMachineTurnsWithoutTheImageOfHypervisors(t *testing.T) {
	d := newPool(t, 1, 1)
	d.Images = images{}
	_, err := d.plan("name: a\nqueues: [{name: q, class: parts, nodes: 1}]\n")
	r := refused(t, err)
	if !strings.Contains(r.Error(), "cannot become hypervisors without the image debian12-hypervisor") ||
		!strings.Contains(r.Diagnostics[0].Hint, "muster images build debian12-hypervisor") {
		t.Errorf("%v; hint %q", r, r.Diagnostics[0].Hint)
	}
}

func TestNoMachineTurnsThatReservationsMayNeed(t *testing.T) {
	d := newPool(t, 3, 2)
	d.create("name: a\nqueues: [{name: q, class: parts, nodes: 1, vm: {cpus: 1, memory: 1GiB}}]\n")
	d.create("name: later\nqueues: [{name: q, class: metal, nodes: 1}]\nlease: {start: +8h, for: 2h, on_end: delete}\n")
	if _, err := d.plan("name: b\nqueues: [{name: q, class: parts, nodes: 1}]\nlease: {for: 1h, on_end: delete}\n"); err != nil {
		t.Errorf("a guest for a hypervisor that is there: %v", err)
	}
	_, err := d.plan("name: b\nqueues: [{name: q, class: parts, nodes: 2}]\nlease: {for: 1h, on_end: delete}\n")
	if r := refused(t, err); !strings.Contains(r.Error(), "no free machine becomes one while machines are reserved") {
		t.Errorf("two guests: %v", r)
	}
}
