package shapes_test

import (
	"slices"
	"testing"

	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
)

func TestShapesAreMachinesThatCanExist(t *testing.T) {
	for _, s := range shapes.All() {
		t.Run(s.Name, func(t *testing.T) {
			f := s.Facts
			nodes, cpus := map[int]bool{}, 0
			for i, n := range f.NUMA {
				nodes[n.ID] = true
				if len(n.Distances) != len(f.NUMA) || n.Distances[i] != 10 {
					t.Errorf("NUMA node %d: distances %v", n.ID, n.Distances)
				}
			}
			ids := map[int]inventory.Core{}
			for _, c := range f.Layout {
				if !nodes[c.NUMA] || c.ID != c.CPUs[0] || ids[c.ID].CPUs != nil {
					t.Errorf("core %+v", c)
				}
				ids[c.ID] = c
				cpus += len(c.CPUs)
			}
			for _, c := range f.Layout {
				if ids[c.Cache].Cache != c.Cache || c.Cache > c.ID {
					t.Errorf("core %+v: its cache is not named after the lowest core that shares it", c)
				}
			}
			if cpus != f.CPUs || len(f.Layout) != f.Cores {
				t.Errorf("%d CPUs in %d cores, said to be %d in %d", cpus, len(f.Layout), f.CPUs, f.Cores)
			}
			addresses := map[string]inventory.Device{}
			for _, d := range f.Devices {
				if _, twice := addresses[d.PCI]; twice || d.NUMA >= 0 && !nodes[d.NUMA] {
					t.Errorf("device %+v", d)
				}
				addresses[d.PCI] = d
			}
			for _, d := range f.Devices {
				if d.Parent != "" && (addresses[d.Parent].Kind != d.Kind || addresses[d.Parent].VFs == 0) {
					t.Errorf("virtual function %+v of %+v", d, addresses[d.Parent])
				}
				if d.Host == "" && slices.Contains([]string{"desktop", "evaluation-host"}, s.Name) {
					t.Errorf("%s has something to give away: %+v", s.Name, d)
				}
			}
		})
	}
}

func TestACallersChangesAreItsOwn(t *testing.T) {
	shapes.Named("dgx-h100").Layout[0].CPUs[0] = 99
	if got := shapes.Named("dgx-h100").Layout[0].CPUs[0]; got != 0 {
		t.Errorf("the next caller gets CPU %d", got)
	}
}
