package slurm

import (
	"maps"
	"testing"

	"muster/internal/protocol"
)

func TestEachNodeHasItsOwnPartOfTheConfiguration(t *testing.T) {
	peers := []protocol.Peer{{Name: "head", Address: "10.77.0.2", Role: protocol.Head},
		{Name: "n1", Address: "10.77.0.3", Role: protocol.Compute}}
	const top = "# Written by muster; changes are overwritten.\n"
	for _, c := range []struct {
		name  string
		local Local
		want  string
	}{
		{"the head of nodes that share CPUs", Local{}, "TaskPlugin=task/none\nSlurmdParameters=config_overrides\n"},
		{"the head of nodes on switches", Local{Switches: true},
			"TaskPlugin=task/none\nSlurmdParameters=config_overrides\nTopologyPlugin=topology/tree\n"},
		{"the head of a node that does not", Local{Binds: true}, "TaskPlugin=task/affinity\nSlurmdParameters=config_overrides\n"},
		{"a node that shares CPUs", Local{Peers: peers},
			"TaskPlugin=task/none\nSlurmdParameters=config_overrides\nNodeName=n1 NodeAddr=10.77.0.3 State=FUTURE\n"},
		{"a node whose kernel does not see to memory", Local{Watched: true}, "TaskPlugin=task/none\nSlurmdParameters=config_overrides\n" +
			"JobAcctGatherParams=NoShared,OverMemoryKill\n"},
		{"a node that confines jobs", Local{Binds: true, Cgroup: 2},
			"TaskPlugin=task/cgroup,task/affinity\nSlurmdParameters=config_overrides\n"},
		{"a node whose sockets are divided", Local{Binds: true, MemoryNodes: true, Peers: peers},
			"TaskPlugin=task/affinity\nSlurmdParameters=config_overrides,numa_node_as_socket\nNodeName=n1 NodeAddr=10.77.0.3 " +
				"State=FUTURE\n"},
	} {
		if got := RenderLocal(c.local); got != top+c.want {
			t.Errorf("%s:\n%s", c.name, got)
		}
	}
}

func TestAQueuesShareOfMemoryIsThatOfItsPoorestNode(t *testing.T) {
	node := func(queue string, cpus, mib int) protocol.Peer {
		return protocol.Peer{Role: protocol.Compute, Queue: queue, CPUs: cpus, MemoryMiB: mib}
	}
	own := func(p protocol.Peer) protocol.Peer {
		p.OwnCPUs = true
		return p
	}
	for _, c := range []struct {
		name   string
		queues []protocol.Queue
		peers  []protocol.Peer
		before map[string]int
		want   map[string]int
	}{
		{"a limit is all for jobs", []protocol.Queue{{Name: "cpu"}},
			[]protocol.Peer{node("cpu", 4, 4096), {Role: protocol.Head, CPUs: 64, MemoryMiB: 1}}, nil,
			map[string]int{"cpu": 1024}},
		{"a kernel takes its part", []protocol.Queue{{Name: "cpu"}}, []protocol.Peer{own(node("cpu", 8, 16384))}, nil,
			map[string]int{"cpu": 1920}},
		{"of a small machine no more than half", []protocol.Queue{{Name: "cpu"}}, []protocol.Peer{own(node("cpu", 1, 1000))}, nil,
			map[string]int{"cpu": 500}},
		{"the poorest counts", []protocol.Queue{{Name: "cpu"}, {Name: "big"}},
			[]protocol.Peer{node("cpu", 2, 4096), node("cpu", 16, 4096), node("big", 4, 64<<10)}, nil,
			map[string]int{"cpu": 256, "big": 16 << 10}},
		{"guests are known before there are any", []protocol.Queue{{Name: "cpu", CPUs: 8, MemoryMiB: 16384}}, nil, nil,
			map[string]int{"cpu": 1920}},
		{"others are not", []protocol.Queue{{Name: "cpu"}}, []protocol.Peer{node("cpu", 0, 4096), node("cpu", 4, 0)}, nil,
			map[string]int{}},
		{"when a queue is empty, or its poorest node has gone, it stays", []protocol.Queue{{Name: "cpu"}, {Name: "big"}},
			[]protocol.Peer{node("big", 4, 64<<10)}, map[string]int{"cpu": 256, "big": 9, "gone": 7},
			map[string]int{"cpu": 256, "big": 9}},
		{"a queue that goes keeps its nodes'", []protocol.Queue{{Name: "cpu", Closed: true}},
			[]protocol.Peer{node("cpu", 2, 4096)}, nil, map[string]int{"cpu": 2048}},
	} {
		if got := MemoryShares(c.queues, c.peers, c.before); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
