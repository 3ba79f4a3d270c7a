// Package shapes has machines of many shapes, as the inspection would find them: what tests of placement, of guests and
// of the inspection itself try their luck on.
//
// What enters: nothing. What leaves: facts. Each shape is like a machine that exists; its comment says which, and where
// its odd numbers come from. What is the same on every machine of its kind is made by the generator in frame.go.
package shapes

import "muster/internal/inventory"

// Shape is a machine.
type Shape struct {
	Name  string
	Facts inventory.Facts
}

// All are the machines of all shapes. The caller may change what it gets.
func All() []Shape {
	return []Shape{
		{"desktop", desktop()},
		{"one-socket-smt", oneSocketSMT()},
		{"two-sockets-smt-off", twoSocketsSMTOff()},
		{"two-sockets-smt", twoSocketsSMT()},
		{"siblings-adjacent", siblingsAdjacent()},
		{"epyc-nps4", epycNPS4()},
		{"xeon-snc2", xeonSNC2()},
		{"dgx-h100", dgxH100()},
		{"dgx-a100", dgxA100()},
		{"devices-on-one-socket", devicesOnOneSocket()},
		{"virtual-functions", virtualFunctions()},
		{"no-iommu", noIOMMU()},
		{"shared-groups", sharedGroups()},
		{"offline-cores", offlineCores()},
		{"memoryless-node", memorylessNode()},
		{"cxl-memory", cxlMemory()},
		{"hbm-flat", hbmFlat()},
		{"sparse-nodes", sparseNodes()},
		{"huge-pages", hugePages()},
		{"evaluation-host", evaluationHost()},
	}
}

// Named is the machine of a shape. It panics where there is no such shape: the caller is a test.
func Named(name string) inventory.Facts {
	for _, s := range All() {
		if s.Name == name {
			return s.Facts
		}
	}
	panic("there is no shape " + name)
}
