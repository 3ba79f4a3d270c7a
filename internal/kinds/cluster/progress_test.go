package cluster

import (
	"slices"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// halfway is a cluster of three nodes and their head, all with an older image.
func halfway() (Cluster, []node.Node) {
	three := 3
	c := Cluster{
		Spec:  spec.Cluster{Image: "new", Queues: []spec.Queue{{Name: "main", Min: &three, Max: &three}}},
		Image: "sha256:new",
	}
	c.Desired, c.Phase = core.Present, Provisioning
	var nodes []node.Node
	for slot, name := range []string{"head", "n1", "n2", "n3"} {
		n := node.Node{Name: name, Role: protocol.Compute, Queue: "main", Slot: slot, Boot: 1, Image: "sha256:old"}
		if slot == 0 {
			n.Role, n.Queue = protocol.Head, ""
		}
		n.Desired, n.Phase = core.Present, core.Ready
		nodes = append(nodes, n)
	}
	return c, nodes
}

func TestNodesBootAnewInTurnAndTheHeadWhenAllOthersAreThere(t *testing.T) {
	tests := []struct {
		name string
		edit func(c *Cluster, n []node.Node)
		want []string
	}{
		{"the first without jobs", func(_ *Cluster, n []node.Node) {
			n[1].Seen.Scheduler = &protocol.NodeState{Jobs: 1}
		}, []string{"n2"}},
		{"none beside one that is down", func(_ *Cluster, n []node.Node) { n[3].Phase = node.Booting }, nil},
		{"none beside one that is missing", func(_ *Cluster, n []node.Node) {
			n[3].Desired, n[3].Phase = node.Absent, node.Gone
		}, nil},
		{"none once it has stopped", func(c *Cluster, _ []node.Node) { c.Rollout.Aim, c.Rollout.Stopped = 2, 2 }, nil},
		{"none for a pause", func(c *Cluster, _ []node.Node) { c.Desired = ToPause }, nil},
		{"the head last", func(_ *Cluster, n []node.Node) { updated(n[1:]) }, []string{"head"}},
		{"the head waits for a node that boots", func(_ *Cluster, n []node.Node) {
			updated(n[1:])
			n[2].Phase = node.Booting
		}, nil},
		{"the head waits for the successor of a dead node", func(_ *Cluster, n []node.Node) {
			updated(n[1:])
			n[2].Desired, n[2].Phase = node.Absent, node.Gone
		}, nil},
		{"the head waits for no node that there is no machine for", func(c *Cluster, n []node.Node) {
			updated(n[1:])
			n[2].Desired, n[2].Phase = node.Absent, node.Gone
			c.Short = "class local: 1 asked, 0 free"
		}, []string{"head"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, nodes := halfway()
			test.edit(&c, nodes)
			nodes = slices.DeleteFunc(nodes, func(n node.Node) bool { return n.Phase == node.Gone })
			var got []string
			for _, n := range c.NextToReboot(nodes) {
				got = append(got, n.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%v reboot instead of %v", got, test.want)
			}
		})
	}
}

// updated gives nodes the new image.
func updated(nodes []node.Node) {
	for i := range nodes {
		nodes[i].Image = "sha256:new"
	}
}
