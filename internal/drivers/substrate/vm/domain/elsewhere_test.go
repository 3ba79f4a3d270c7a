package domain

import (
	"errors"
	"strings"
	"testing"

	"muster/internal/inventory"
	"muster/internal/place"
)

// twoSockets is a host with a NUMA node and four cores a socket; numbering begins with core first.
func twoSockets(first, distance int) inventory.Facts {
	f := inventory.Facts{Arch: "amd64", CPUModel: "AMD EPYC", NUMA: []inventory.NUMANode{
		{ID: 0, MemoryMiB: 8 << 10, Distances: []int{10, distance}}, {ID: 1, MemoryMiB: 8 << 10, Distances: []int{distance, 10}},
	}}
	for i := range 8 {
		f.Layout = append(f.Layout, inventory.Core{ID: first + i, CPUs: []int{i}, NUMA: i / 4, Package: i / 4,
			Cache: first + i/2*2})
	}
	return f
}

func part(cells ...place.Cell) place.Allocation {
	return place.Allocation{Share: 1, Cells: cells}
}

func cellOf(numa, mib int, cores ...int) place.Cell {
	return place.Cell{NUMA: numa, MemoryMiB: mib, Cores: cores}
}

// What the placement takes for the same view is the same machine by its description, and what it does not is not.
func TestAGuestGoesOnlyWhereItSeesTheSameMachine(t *testing.T) {
	here := twoSockets(0, 21)
	for name, c := range map[string]struct {
		is    place.Allocation
		there inventory.Facts
		gets  place.Allocation
		same  bool
	}{
		"other cores":       {part(cellOf(0, 1024, 2, 3)), twoSockets(10, 21), part(cellOf(0, 1024, 10, 11)), true},
		"another NUMA node": {part(cellOf(0, 1024, 2, 3)), here, part(cellOf(1, 1024, 4, 5)), true},
		"other caches":      {part(cellOf(0, 1024, 2, 3)), here, part(cellOf(0, 1024, 1, 2)), false},
		"two NUMA nodes":    {part(cellOf(0, 1024, 2, 3)), here, part(cellOf(0, 512, 0), cellOf(1, 512, 4)), false},
		"two of them, as before": {part(cellOf(0, 512, 0), cellOf(1, 512, 4)), twoSockets(10, 21),
			part(cellOf(0, 512, 11), cellOf(1, 512, 15)), true},
		"farther from another": {part(cellOf(0, 512, 0), cellOf(1, 512, 4)), twoSockets(10, 31),
			part(cellOf(0, 512, 11), cellOf(1, 512, 15)), false},
		"less memory": {part(cellOf(0, 1024, 2, 3)), here, part(cellOf(0, 768, 2, 3)), false},
	} {
		describe := func(f inventory.Facts, h place.Allocation) Domain {
			d, err := Describe(Guest{Name: "g", Facts: f, Allocation: h, KVM: true, MAC: []byte{2, 0, 0, 0, 0, 1}})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		is, gets := describe(here, c.is), describe(c.there, c.gets)
		goes, err := Elsewhere(is.XML, gets)
		if c.same != (err == nil) || err != nil && !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
		if alike := c.is.View(here) == c.gets.View(c.there); alike != c.same {
			t.Errorf("%s: alike by its view: %v:\n%s\n%s", name, alike, c.is.View(here), c.gets.View(c.there))
		}
		if c.same && strings.TrimSpace(goes) != strings.TrimSpace(gets.XML) {
			t.Errorf("%s: it is described as\n%s\nwant\n%s", name, goes, gets.XML)
		}
	}
	if _, err := Elsewhere("no description", Domain{}); err == nil {
		t.Error("nonsense was read")
	}
}

func FuzzElsewhere(f *testing.F) {
	d, err := Describe(Guest{Name: "g", Facts: twoSockets(0, 21), Allocation: part(cellOf(0, 1024, 2, 3)),
		MAC: []byte{2, 0, 0, 0, 0, 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(d.XML)
	f.Add("<domain type='kvm'><cpu><numa><cell/></numa></cpu></domain>")
	f.Add("<domain")
	// it must only not panic: another host has said it
	f.Fuzz(func(_ *testing.T, running string) { _, _ = Elsewhere(running, d) })
}
