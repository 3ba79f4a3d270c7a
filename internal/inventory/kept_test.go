package inventory

import (
	"maps"
	"slices"
	"testing"
)

func TestAHypervisorKeepsACoreOfEverySocketUnlessItHasFew(t *testing.T) {
	layout := func(sockets, cores int) []Core {
		var all []Core
		for id := range sockets * cores {
			all = append(all, Core{ID: id, CPUs: []int{id}, Package: id / cores})
		}
		return all
	}
	for _, c := range []struct {
		sockets, cores int
		kept           []int
	}{{1, 2, nil}, {1, 3, nil}, {1, 4, []int{0}}, {2, 8, []int{0, 8}}} {
		if got, _ := (Facts{Layout: layout(c.sockets, c.cores)}).Kept(); !slices.Equal(got, c.kept) {
			t.Errorf("%d sockets of %d cores: kept %v, want %v", c.sockets, c.cores, got, c.kept)
		}
	}
}

func TestAHypervisorKeepsMemoryOfEveryNodeThatHasAny(t *testing.T) {
	for _, c := range []struct {
		nodes []NUMANode
		kept  map[int]int
	}{
		{[]NUMANode{{ID: 0, MemoryMiB: 2048}}, map[int]int{0: 512}},
		{[]NUMANode{{ID: 0, MemoryMiB: 256}}, map[int]int{0: 256}},
		{[]NUMANode{{ID: 0}, {ID: 1, MemoryMiB: 65536}, {ID: 2, MemoryMiB: 1600}}, map[int]int{1: 4096, 2: 100}},
	} {
		if _, got := (Facts{NUMA: c.nodes}).Kept(); !maps.Equal(got, c.kept) {
			t.Errorf("%v: kept %v, want %v", c.nodes, got, c.kept)
		}
	}
}
