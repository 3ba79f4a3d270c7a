package cluster

import (
	"strings"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/kit/lists"
	"muster/internal/protocol"
	"muster/internal/spec"
)

func TestThoseGoFirstWhoseLossCostsLeast(t *testing.T) {
	newNode := func(name string, slot int, phase core.Phase, jobs int) node.Node {
		n := node.Node{Name: name, Slot: slot, Role: protocol.Compute, Queue: "main", Class: "c", Desired: core.Present}
		n.Phase, n.Seen.Scheduler = phase, &protocol.NodeState{Jobs: jobs}
		return n
	}
	nodes := []node.Node{
		{Name: "head", Slot: 2, Desired: core.Present, Class: "c"},
		newNode("n1", 3, core.Ready, 0), newNode("n2", 4, core.Ready, 1), newNode("n3", 5, node.Joining, 0),
		newNode("n4", 6, core.Ready, 0), newNode("n5", 7, core.Ready, 2),
	}
	for _, c := range []struct {
		max           int
		goes, missing string
	}{
		{5, "", ""},
		{4, "n3", ""},
		{3, "n3 n4", ""},
		{2, "n1 n3 n4", ""},
		{1, "n1 n3 n4 n5", ""},
		{0, "n1 n2 n3 n4 n5", ""},
		{7, "", "n6 n7"},
	} {
		missing, goes := Cluster{Spec: spec.Cluster{Head: &spec.Head{Class: "c"},
			Queues: []spec.Queue{{Name: "main", Class: "c", Min: &c.max, Max: &c.max}}}}.Shape(nodes)
		names := lists.Map(goes, func(n node.Node) string { return n.Name })
		lacks := lists.Map(missing, func(m Member) string { return m.Name })
		if strings.Join(names, " ") != c.goes || strings.Join(lacks, " ") != c.missing {
			t.Errorf("%d nodes: %v go, %v are missing", c.max, names, lacks)
		}
	}
}

func TestANameIsFreeOnlyWhenItsNodeIsGone(t *testing.T) {
	two := 2
	nodes := []node.Node{{Name: "head", Desired: core.Present}, {Name: "n1", Queue: "main", Desired: node.Absent}}
	missing, _ := Cluster{Spec: spec.Cluster{Head: &spec.Head{},
		Queues: []spec.Queue{{Name: "main", Min: &two, Max: &two}}}}.Shape(nodes)
	if len(missing) != 2 || missing[0].Name != "n2" || missing[1].Name != "n3" {
		t.Error(missing)
	}
}
