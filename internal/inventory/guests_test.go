package inventory

import (
	"strings"
	"testing"
)

func siteWith(class string) string {
	return "site: a\ndefaults: {project: p, image: i, class: local, head_class: local}\nclasses:\n  - {name: local, select: " +
		"[\"substrate = local\"]}\n  - " + class + "\n"
}

func TestAClassOfHypervisorsHasAShapeAndMayShareCores(t *testing.T) {
	for written, want := range map[string]Class{
		`{name: v, select: ["cpus > 1"], hypervisor: true}`: {
			Hypervisor: true, Overcommit: 1, Shape: Shape{4, "16GiB"}},
		`{name: v, select: ["cpus > 1"], hypervisor: true, overcommit: {cpu: 2}, vm: {cpus: 1, memory: 768MiB}}`: {
			Hypervisor: true, Overcommit: 2, Shape: Shape{1, "768MiB"}},
		`{name: v, select: ["cpus > 1"]}`: {},
	} {
		c, err := parseCatalogue([]byte(siteWith(written)))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := c.Find("v")
		if got.Hypervisor != want.Hypervisor || got.Overcommit != want.Overcommit || got.Shape != want.Shape {
			t.Errorf("%s: %+v", written, got)
		}
		if (c.VM == "v") != want.Hypervisor {
			t.Errorf("%s: the class of virtual machines is %q", written, c.VM)
		}
	}
}

func TestWhatAClassOfHypervisorsCannotSay(t *testing.T) {
	for written, want := range map[string]string{
		`{name: v, select: ["cpus > 1"], overcommit: {cpu: 2}}`:        "write hypervisor: true",
		`{name: v, select: ["cpus > 1"], vm: {cpus: 2, memory: 2GiB}}`: "write hypervisor: true",
		`{name: v, select: ["cpus > 1"], hypervisor: true, overcommit: {cpu: 0}}`: "classes[1]: " +
			"overcommit.cpu: 0; write how many guests",
		`{name: v, select: ["cpus > 1"], hypervisor: true, overcommit: {gpu: 2}}`: "gpu",
		`{name: v, select: ["cpus > 1"], hypervisor: true, vm: {cpus: 2}}`: "for example {cpus: 4, " +
			"memory: 16GiB}",
		`{name: v, select: ["cpus > 1"], hypervisor: true, vm: {cpus: 2, memory: "2 Gigabyte"}}`: "for example {cpus: 4, " +
			"memory: 16GiB}",
	} {
		if _, err := parseCatalogue([]byte(siteWith(written))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", written, err)
		}
	}
}

func TestTheBuiltInCatalogueHasGuests(t *testing.T) {
	c, err := ReadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	vm, _ := c.Find(c.VM)
	if !vm.Hypervisor || !vm.Has(Machine{Substrate: "vm"}) || vm.Has(Machine{Substrate: "metal"}) {
		t.Errorf("%+v", vm)
	}
}
