package api

import (
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/place/elastic"
	"muster/internal/protocol"
	"muster/internal/spec"
)

func TestEveryWaitingJobIsToldWhatItWaitsFor(t *testing.T) {
	number := func(n int) *int { return &n }
	newCluster := func(target int, short string) cluster.Cluster {
		return cluster.Cluster{Desired: core.Present, Targets: map[string]int{"cpu": target}, Short: short,
			Learned: map[string]elastic.Learned{"cpu": {Size: protocol.Size{CPUs: 2}}},
			Spec: spec.Cluster{Queues: []spec.Queue{
				{Name: "fixed", Min: number(1), Max: number(1)}, {Name: "cpu", Min: number(0), Max: number(3)},
			}}}
	}
	newNode := func(name string, phase core.Phase) node.Node {
		n := node.Node{Name: name, Queue: "cpu", Role: protocol.Compute, Desired: core.Present}
		n.Phase = phase
		return n
	}
	job := func(queue string, nodes int, reason string, grows bool) protocol.WaitingJob {
		return protocol.WaitingJob{ID: 7, Tasks: 1, Queues: []string{queue}, Request: protocol.Request{Nodes: nodes},
			Reason: reason, Grows: grows}
	}
	for _, c := range []struct {
		name    string
		cluster cluster.Cluster
		nodes   []node.Node
		job     protocol.WaitingJob
		want    string
	}{
		{"nodes that come", newCluster(2, ""), []node.Node{newNode("cpu1", node.Booting), newNode("cpu2", node.Joining)},
			job("cpu", 2, "PartitionConfig", true), "cpu1 booting, cpu2 joining"},
		{"nodes that come, and others that cannot", newCluster(2, "class c: 1 more asked, 0 free"),
			[]node.Node{newNode("cpu1", node.Booting)}, job("cpu", 2, "PartitionConfig", true),
			"cpu1 booting; 1 more of queue cpu: class c: 1 more asked, 0 free"},
		{"nodes that are not placed yet", newCluster(1, ""), nil, job("cpu", 1, "PartitionConfig", true),
			"1 more of queue cpu, to be placed"},
		{"a full queue", newCluster(3, ""), []node.Node{newNode("cpu1", core.Ready), newNode("cpu2", core.Ready),
			newNode("cpu3", core.Ready)}, job("cpu", 1, "Resources", true),
			"free nodes: queue cpu has all that it may have; Slurm says Resources"},
		{"a queue of fixed size", newCluster(0, ""),
			[]node.Node{{Name: "fixed1", Queue: "fixed", Desired: core.Present, Life: core.Life{Phase: core.Ready}}},
			job("fixed", 1, "Resources", true),
			"free nodes: queue fixed has all that it may have; Slurm says Resources"},
		{"more than there can be", newCluster(0, ""), nil, job("cpu", 5, "PartitionConfig", true),
			"it asks for 5 nodes, but queue cpu may have 3"},
		{"more than a node has", newCluster(0, ""), nil, func() protocol.WaitingJob {
			j := job("cpu", 1, "PartitionConfig", true)
			j.NodeCPUs = 64
			return j
		}(), "it asks for 64 CPUs on one node, but nodes of queue cpu have 2"},
		{"another job", newCluster(0, ""), nil, job("cpu", 1, "Dependency", false), "Slurm says Dependency"},
		{"Slurm's next look", newCluster(1, ""), []node.Node{newNode("cpu1", core.Ready)}, job("cpu", 1, "Priority", true),
			"Slurm says Priority"},
		{"a queue that is no more", newCluster(0, ""), nil, job("gone", 1, "PartitionDown", false), "Slurm says PartitionDown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := node.Node{Name: "head", Role: protocol.Head}
			head.Seen.Waiting = protocol.Waiting{Total: 1, Jobs: []protocol.WaitingJob{c.job}}
			view := waitingView("Slurm", c.cluster, append(c.nodes, head))
			if view == nil || view.Total != 1 || len(view.Jobs) != 1 || view.Jobs[0].WaitsFor != c.want {
				t.Errorf("%+v, not %q", view, c.want)
			}
		})
	}
	if view := waitingView("Slurm", newCluster(0, ""), []node.Node{{Role: protocol.Head}}); view != nil {
		t.Error(view)
	}
}
