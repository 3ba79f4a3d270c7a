package slurm

import (
	"testing"

	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
)

func TestSlurmCountsCoresAsTheyLie(t *testing.T) {
	adjacent := shapes.Named("siblings-adjacent")
	for _, c := range []struct {
		name   string
		layout inventory.Layout
		cpus   string
		want   string
	}{
		{"two threads a core, numbered one after the other",
			inventory.Layout{{ID: 0, CPUs: []int{0, 1}}, {ID: 2, CPUs: []int{2, 3}, NUMA: 1, Package: 1}}, "2-3", "1"},
		{"sockets take turns", inventory.Layout{{ID: 0, CPUs: []int{0}}, {ID: 1, CPUs: []int{1}, NUMA: 1, Package: 1},
			{ID: 2, CPUs: []int{2}}, {ID: 3, CPUs: []int{3}, NUMA: 1, Package: 1}}, "1,3", "2-3"},
		{"NUMA nodes within a socket take turns", inventory.Layout{{ID: 0, CPUs: []int{0}}, {ID: 1, CPUs: []int{1}, NUMA: 1},
			{ID: 2, CPUs: []int{2}}, {ID: 3, CPUs: []int{3}, NUMA: 1}}, "0,2", "0-1"},
		{"not known", adjacent.Layout, "", ""},
		{"none of them is there", adjacent.Layout, "9999", ""},
	} {
		if got := coresOf(c.layout, c.cpus); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for _, s := range shapes.All() {
		total := 0
		for _, n := range s.Facts.NUMA {
			cores, err := inventory.ParseCPUList(coresOf(s.Facts.Layout, n.CPUs))
			if err != nil {
				t.Fatal(err)
			}
			total += len(cores)
		}
		if total != len(s.Facts.Layout) {
			t.Errorf("%s: %d of %d cores are near some NUMA node", s.Name, total, len(s.Facts.Layout))
		}
	}
}
