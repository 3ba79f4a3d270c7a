package api

import (
	"testing"

	"muster/internal/agent/protocol"
	"muster/internal/spec"
	"muster/internal/store"
)

func TestEveryWaitingJobIsToldWhatItWaitsFor(t *testing.T) {
	number := func(n int) *int { return &n }
	cluster := func(target int, short string) store.Cluster {
		return store.Cluster{Desired: store.Present, Targets: map[string]int{"cpu": target}, Short: short, Spec: spec.Cluster{Queues: []spec.Queue{
			{Name: "fixed", Min: number(1), Max: number(1)}, {Name: "cpu", Min: number(0), Max: number(3)},
		}}}
	}
	node := func(name string, phase store.Phase) store.Node {
		n := store.Node{Name: name, Queue: "cpu", Role: protocol.Compute, Desired: store.Present}
		n.Phase, n.Seen.Facts.CPUs = phase, 2
		return n
	}
	job := func(queue string, nodes int, reason string, grows bool) protocol.WaitingJob {
		return protocol.WaitingJob{ID: 7, Tasks: 1, Queues: []string{queue}, Nodes: nodes, Reason: reason, Grows: grows}
	}
	for _, c := range []struct {
		name    string
		cluster store.Cluster
		nodes   []store.Node
		job     protocol.WaitingJob
		want    string
	}{
		{"nodes that come", cluster(2, ""), []store.Node{node("cpu1", store.Booting), node("cpu2", store.Joining)}, job("cpu", 2, "PartitionConfig", true), "cpu1 booting, cpu2 joining"},
		{"nodes that come, and others that cannot", cluster(2, "class c: 1 more asked, 0 free"), []store.Node{node("cpu1", store.Booting)}, job("cpu", 2, "PartitionConfig", true),
			"cpu1 booting; 1 more of queue cpu: class c: 1 more asked, 0 free"},
		{"nodes that are not placed yet", cluster(1, ""), nil, job("cpu", 1, "PartitionConfig", true), "1 more of queue cpu, to be placed"},
		{"a full queue", cluster(3, ""), []store.Node{node("cpu1", store.Ready), node("cpu2", store.Ready), node("cpu3", store.Ready)}, job("cpu", 1, "Resources", true),
			"free nodes: queue cpu has all that it may have; Slurm says Resources"},
		{"a queue of fixed size", cluster(0, ""), []store.Node{{Name: "fixed1", Queue: "fixed", Desired: store.Present, Life: store.Life{Phase: store.Ready}}}, job("fixed", 1, "Resources", true),
			"free nodes: queue fixed has all that it may have; Slurm says Resources"},
		{"more than there can be", cluster(0, ""), nil, job("cpu", 5, "PartitionConfig", true), "it asks for 5 nodes, and queue cpu may have 3"},
		{"another job", cluster(0, ""), nil, job("cpu", 1, "Dependency", false), "Slurm says Dependency"},
		{"Slurm's next look", cluster(1, ""), []store.Node{node("cpu1", store.Ready)}, job("cpu", 1, "Priority", true), "Slurm says Priority"},
		{"a queue that is no more", cluster(0, ""), nil, job("gone", 1, "PartitionDown", false), "Slurm says PartitionDown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := store.Node{Name: "head", Role: protocol.Head}
			head.Seen.Waiting = protocol.Waiting{Total: 1, Jobs: []protocol.WaitingJob{c.job}}
			view := waitingView("Slurm", c.cluster, append(c.nodes, head))
			if view == nil || view.Total != 1 || len(view.Jobs) != 1 || view.Jobs[0].WaitsFor != c.want {
				t.Errorf("%+v, not %q", view, c.want)
			}
		})
	}
	if view := waitingView("Slurm", cluster(0, ""), []store.Node{{Role: protocol.Head}}); view != nil {
		t.Error(view)
	}
}
