package admission

import (
	"strings"
	"testing"

	"muster/internal/agent/protocol"
	"muster/internal/spec"
	"muster/internal/store"
)

func TestThoseGoFirstWhoseLossCostsLeast(t *testing.T) {
	node := func(name string, slot int, phase store.Phase, jobs int) store.Node {
		n := store.Node{Name: name, Slot: slot, Role: protocol.Compute, Queue: "main", Class: "c", Desired: store.Present}
		n.Phase, n.Seen.Scheduler = phase, &protocol.NodeState{Jobs: jobs}
		return n
	}
	nodes := []store.Node{
		{Name: "head", Slot: 2, Desired: store.Present, Class: "c"},
		node("n1", 3, store.Ready, 0), node("n2", 4, store.Ready, 1), node("n3", 5, store.Joining, 0), node("n4", 6, store.Ready, 0), node("n5", 7, store.Ready, 2),
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
		s := shapeOf(store.Cluster{Spec: spec.Cluster{Head: &spec.Head{Class: "c"}, Queues: []spec.Queue{{Name: "main", Class: "c", Min: &c.max, Max: &c.max}}}}, nodes)
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
	nodes := []store.Node{{Name: "head", Desired: store.Present}, {Name: "n1", Queue: "main", Desired: store.Absent}}
	s := shapeOf(store.Cluster{Spec: spec.Cluster{Head: &spec.Head{}, Queues: []spec.Queue{{Name: "main", Min: &two, Max: &two}}}}, nodes)
	if len(s.missing) != 2 || s.missing[0].Name != "n2" || s.missing[1].Name != "n3" {
		t.Error(s.missing)
	}
}
