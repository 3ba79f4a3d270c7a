package elastic

import (
	"fmt"
	"math"

	"muster/internal/protocol"
)

// Needs is how many empty nodes of the queue a job takes at least, as the scheduler counts (test/judge); or why no number of them
// would do. What is not known of the nodes is taken to be enough.
func Needs(q Queue, r protocol.Request) (nodes int, why string) {
	for _, limit := range perNode(q.Size, r) {
		if limit.each > limit.has {
			return 0, fmt.Sprintf("it asks for %d %s on one node, but nodes of queue %s have %d", limit.each, limit.of, q.Name,
				limit.has)
		}
	}
	fit := ranksOn(q.Size, r)
	if fit == 0 {
		return 0, fmt.Sprintf("nodes of queue %s have %s, of which none of its tasks could use the GPUs that it asks for", q.Name,
			sizeText(q.Size, r))
	}
	nodes = max(r.Nodes, 1, atLeast(max(r.Ranks, 1), fit))
	if q.Size.CPUs > 0 {
		nodes = max(nodes, atLeast(r.CPUs, q.Size.CPUs))
	}
	if r.GPUs > 0 {
		gpus := gpusIn(whole(q.Size), r)
		if gpus == 0 {
			return 0, fmt.Sprintf("it asks for %d GPUs, but nodes of queue %s have none that it could use", r.GPUs, q.Name)
		}
		// The number of tasks bounds that of nodes where somebody has said it: what a scheduler adds by itself has no CPUs.
		said := r.Ranks > 1 && r.CPUs >= r.Ranks || r.Ranks > 0 && r.NodeRanks > 0
		if nodes = max(nodes, atLeast(r.GPUs, gpus)); said && nodes > max(r.Ranks, 1) {
			return 0, fmt.Sprintf("it asks for %d GPUs, for which it needs %d nodes of queue %s, but has %d tasks", r.GPUs, nodes,
				q.Name, max(r.Ranks, 1))
		}
	}
	switch {
	case r.MostNodes > 0 && nodes > r.MostNodes:
		return 0, fmt.Sprintf("it may have %d nodes and needs %d of queue %s, which have %s each", r.MostNodes, nodes, q.Name,
			sizeText(q.Size, r))
	case nodes > q.Max && nodes > r.Nodes:
		return 0, fmt.Sprintf("it needs %d nodes, but queue %s may have %d, which have %s each", nodes, q.Name, q.Max,
			sizeText(q.Size, r))
	case nodes > q.Max:
		return 0, fmt.Sprintf("it asks for %d nodes, but queue %s may have %d", nodes, q.Name, q.Max)
	}
	return nodes, ""
}

// limit is what a job asks of each node, and what a node has of it.
type limit struct {
	of        string
	each, has int
}

func perNode(s protocol.Size, r protocol.Request) []limit {
	if s.CPUs == 0 {
		return nil
	}
	return []limit{
		{"CPUs", max(r.NodeCPUs, r.RankCPUs), s.CPUs},
		{"MiB of memory", max(r.NodeMemory, leastCPUs(s, r)*r.CPUMemory), orAny(s.Memory)},
		{"MiB in /tmp", r.NodeTmp, orAny(s.Tmp)},
		{"GPUs", max(r.NodeGPUs, r.RankGPUs*max(r.NodeRanks, 1)), s.GPUs},
	}
}

// leastCPUs is how many CPUs a job gets on each of its nodes at least: whole cores, and all if it shares them with no other job.
func leastCPUs(s protocol.Size, r protocol.Request) int {
	if r.Whole {
		return s.CPUs
	}
	threads := max(s.Threads, 1)
	return atLeast(max(r.NodeCPUs, r.RankCPUs, 1), threads) * threads
}

// room is what is free of a node.
type room struct{ cpus, memory, gpus int }

func whole(s protocol.Size) room {
	if s.CPUs == 0 {
		return room{orAny(0), orAny(0), orAny(0)}
	}
	return room{s.CPUs, orAny(s.Memory), s.GPUs}
}

// orAny takes what is not known for enough.
func orAny(n int) int {
	if n == 0 {
		return math.MaxInt32
	}
	return n
}

// ranksOn is how many of a job's ranks have room on an empty node. A job gets whole cores, and memory for all their CPUs.
func ranksOn(s protocol.Size, r protocol.Request) int {
	free, threads := whole(s), max(s.Threads, 1)
	cpus := free.cpus
	if r.CPUMemory > 0 {
		cpus = min(cpus, free.memory/r.CPUMemory/threads*threads)
	}
	fit := cpus / max(r.RankCPUs, 1)
	if r.NodeRanks > 0 {
		fit = min(fit, r.NodeRanks)
	}
	if r.RankGPUs > 0 {
		fit = min(fit, gpusIn(free, r)/r.RankGPUs)
	}
	return fit
}

// gpusIn is how many GPUs of a node a job can use.
func gpusIn(free room, r protocol.Request) int {
	gpus := free.gpus
	if r.GPUCPUs > 0 {
		gpus = min(gpus, free.cpus/r.GPUCPUs)
	}
	if r.GPUMemory > 0 {
		gpus = min(gpus, free.memory/r.GPUMemory)
	}
	return gpus
}

// takes is what a job on one node takes of it.
func takes(s protocol.Size, r protocol.Request) room {
	ranks, threads := max(r.Ranks, 1), max(s.Threads, 1)
	gpus := max(r.GPUs, r.NodeGPUs, ranks*r.RankGPUs)
	cpus := max(ranks*max(r.RankCPUs, 1), r.CPUs, r.NodeCPUs, gpus*r.GPUCPUs)
	cpus = atLeast(cpus, threads) * threads
	return room{cpus, max(r.NodeMemory, cpus*r.CPUMemory, gpus*r.GPUMemory), gpus}
}

// copies is how many jobs that take as much have room.
func (f room) copies(each room) int {
	n := math.MaxInt32
	for _, of := range [][2]int{{f.cpus, each.cpus}, {f.memory, each.memory}, {f.gpus, each.gpus}} {
		if of[1] > 0 {
			n = min(n, of[0]/of[1])
		}
	}
	return n
}

func (f room) less(each room, n int) room {
	return room{f.cpus - n*each.cpus, f.memory - n*each.memory, f.gpus - n*each.gpus}
}

// packer puts jobs on empty nodes, each on the first that has room.
type packer struct {
	empty room
	most  int    // nodes that there may be
	part  []room // what is left of nodes that have a job
	nodes int    // that have one
}

// add puts so many jobs on nodes that they share.
func (p *packer) add(each room, jobs int) {
	for i := range p.part {
		n := min(jobs, p.part[i].copies(each))
		p.part[i] = p.part[i].less(each, n)
		jobs -= n
	}
	for fit := max(p.empty.copies(each), 1); jobs > 0; jobs -= fit {
		if p.nodes++; p.nodes > p.most {
			p.nodes += (jobs - 1) / fit // which of them have room left matters no more
			return
		}
		p.part = append(p.part, p.empty.less(each, min(jobs, fit)))
	}
}

// atLeast is how many parts of a size hold so many.
func atLeast(n, each int) int { return (n + each - 1) / each }

// sizeText says of a node what the job's asking depends on.
func sizeText(s protocol.Size, r protocol.Request) string {
	if s.CPUs == 0 {
		return "what it asks for"
	}
	text := fmt.Sprintf("%d CPUs", s.CPUs)
	if s.Memory > 0 && r.CPUMemory+r.NodeMemory+r.GPUMemory > 0 {
		text += fmt.Sprintf(" and %d MiB of memory", s.Memory)
	}
	if r.GPUs+r.NodeGPUs+r.RankGPUs > 0 {
		text += fmt.Sprintf(" and %d GPUs", s.GPUs)
	}
	return text
}
