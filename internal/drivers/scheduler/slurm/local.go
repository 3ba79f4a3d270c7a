package slurm

import (
	"fmt"
	"strings"

	"muster/internal/protocol"
)

// Local is what is not the same on all nodes of a cluster.
type Local struct {
	// Binds says that tasks are bound to CPUs, and on the head that they are on any compute node: srun refuses to ask for it
	// where its own configuration does not have it. Nodes that share CPUs see the same CPU numbers, and all would use CPU 0
	// first.
	Binds bool
	// Cgroup is the version of control groups by which a job's programs, those included that start others by themselves, as
	// mpirun, are kept from leaving the job's CPUs; 0: they are not.
	Cgroup int
	// MemoryNodes has slurmd take each NUMA node for a socket, where a socket has several.
	MemoryNodes bool
	// Watched has slurmd end jobs that use more memory than they have, which it looks at now and then: nothing else does.
	Watched bool
	// Switches has slurmctld place jobs by the switches of nodes, and say of them; it is for the head alone.
	Switches bool
	// Peers are in the file with their addresses, those that compute. The head has none there: slurmctld would take them for
	// nodes.
	Peers []protocol.Peer
}

// RenderLocal returns the part of slurm.conf that a node has of its own. Of what is in it, the addresses are for the
// programs of jobs: slurmctld tells a job of its dynamic nodes' addresses when it starts, and no more once slurmctld itself
// was restarted (before 24.11), so that the job's next srun would find none of its nodes. State FUTURE keeps the lines
// from meaning nodes of their own.
func RenderLocal(l Local) string {
	var b strings.Builder
	b.WriteString(written)
	task, parameters := "task/none", "config_overrides" // what a node says of itself counts, whatever hardware it sees
	switch {
	case l.Binds && l.Cgroup > 0:
		task = "task/cgroup,task/affinity"
	case l.Binds:
		task = "task/affinity"
	}
	if l.MemoryNodes {
		parameters += ",numa_node_as_socket"
	}
	fmt.Fprintf(&b, "TaskPlugin=%s\nSlurmdParameters=%s\n", task, parameters)
	if l.Watched {
		// What is shared is left out: each rank would be charged with all that it shares with others of its node.
		b.WriteString("JobAcctGatherParams=NoShared,OverMemoryKill\n")
	}
	if l.Switches {
		b.WriteString("TopologyPlugin=topology/tree\n")
	}
	for _, p := range l.Peers {
		if p.Role == protocol.Compute {
			fmt.Fprintf(&b, "NodeName=%s NodeAddr=%s State=FUTURE\n", p.Name, p.Address)
		}
	}
	return b.String()
}

// leastShare is what a job that does not speak of memory gets for each CPU, in MiB, in a queue whose nodes' memory is not known:
// so little that no node has less.
const leastShare = 64

// MemoryShares is the memory of each queue's nodes by their CPUs, in MiB, of the node that has least: a job on all CPUs of any
// node finds its share there. It is of the nodes among the peers, of nodes as the queue's are to be, and no more than it was
// before, so that the file seldom changes.
func MemoryShares(queues []protocol.Queue, peers []protocol.Peer, before map[string]int) map[string]int {
	shares := map[string]int{}
	note := func(queue string, share int) {
		if old, known := shares[queue]; share > 0 && (!known || share < old) {
			shares[queue] = share
		}
	}
	of := func(p protocol.Peer) {
		if p.CPUs > 0 {
			note(p.Queue, jobMemory(p)/p.CPUs)
		}
	}
	for _, q := range queues {
		note(q.Name, before[q.Name])
		of(protocol.Peer{Queue: q.Name, CPUs: q.CPUs, MemoryMiB: q.MemoryMiB, OwnCPUs: true})
	}
	for _, p := range peers {
		if p.Role == protocol.Compute {
			of(p)
		}
	}
	return shares
}

// jobMemory is how much of a node's memory is for jobs, in MiB; 0: not known. Where the kernel is the node's own, it and the
// node's root take theirs out of it. In namespaces they do not, and the limit is what it says.
func jobMemory(p protocol.Peer) int {
	if !p.OwnCPUs {
		return p.MemoryMiB
	}
	return max(p.MemoryMiB-p.MemoryMiB/32-512, p.MemoryMiB/2)
}

// shareOf is the end of a partition's line.
func shareOf(share int) string {
	if share == 0 {
		return ""
	}
	return fmt.Sprintf(" DefMemPerCPU=%d", share)
}
