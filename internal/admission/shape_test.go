package admission

import (
	"strings"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
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
		s := shapeOf(cluster.Cluster{Spec: spec.Cluster{Head: &spec.Head{Class: "c"},
			Queues: []spec.Queue{{Name: "main", Class: "c", Min: &c.max, Max: &c.max}}}}, nodes)
		var goes, missing []string
		for _, n := range s.release {
			goes = append(goes, n.Name)
		}
		for _, m := range s.missing {
			missing = append(missing, m.Name)
		}
		if strings.Join(goes, " ") != c.goes || strings.Join(missing, " ") != c.missing {
			t.Errorf("%d nodes: %v go, %v are missing", c.max, goes, missing)
		}
	}
}

func TestANameIsFreeOnlyWhenItsNodeIsGone(t *testing.T) {
	two := 2
	nodes := []node.Node{{Name: "head", Desired: core.Present}, {Name: "n1", Queue: "main", Desired: node.Absent}}
	s := shapeOf(cluster.Cluster{Spec: spec.Cluster{Head: &spec.Head{},
		Queues: []spec.Queue{{Name: "main", Min: &two, Max: &two}}}}, nodes)
	if len(s.missing) != 2 || s.missing[0].Name != "n2" || s.missing[1].Name != "n3" {
		t.Error(s.missing)
	}
}
