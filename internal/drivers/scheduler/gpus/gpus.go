// Package gpus says which GPU each rank of a parallel job computes on: the same one each time, without asking anybody.
//
// What enters: the list of a cluster's GPUs, which every node has, and what a scheduler or MPI tells a job in its
// environment. What leaves: a GPU for every rank. Pure.
//
// The rule: nodes come in the order of the job, GPUs by their PCI addresses, ranks by their numbers. A node's ranks fill its
// GPUs from the first one on, one each. Where there are more ranks than GPUs, neighbours share one, and no GPU has more
// than one rank more than another.
package gpus

import (
	"fmt"
	"strconv"
	"strings"

	"muster/internal/kit/lists"
)

// File is where every node has the list.
const File = "/etc/muster/gpus"

// GPU is one of a cluster's.
type GPU struct {
	Node    string
	Index   int    // on its node, as CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID, and as schedulers do
	Address string // among all of the site: "r1n1/gpu0"
	CPUs    string // of the node, nearest to it, Linux CPU list; "": all are equally near
	Model   string
}

// Parse reads the list: a line "NODE INDEX ADDRESS CPUS MODEL…" for each GPU, "-" for what is not known.
func Parse(text string) ([]GPU, error) {
	var all []GPU
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return nil, fmt.Errorf("list of GPUs: %.60q is not NODE GPU ADDRESS CPUS MODEL", line)
		}
		index, err := strconv.ParseUint(fields[1], 10, 8)
		if err != nil {
			return nil, fmt.Errorf("list of GPUs: %.60q: %.20q is no number of a GPU", line, fields[1])
		}
		g := GPU{Node: fields[0], Index: int(index), Address: fields[2], CPUs: fields[3], Model: strings.Join(fields[4:], " ")}
		if g.CPUs == "-" {
			g.CPUs = ""
		}
		if g.Model == "-" {
			g.Model = ""
		}
		all = append(all, g)
	}
	return all, nil
}

// Of are the GPUs of a node, in order.
func Of(all []GPU, node string) []GPU {
	return lists.Filter(all, func(g GPU) bool { return g.Node == node })
}

// Share is the number, from 0, of the GPU that a node's rank gets, of so many ranks and GPUs on the node. There is a GPU.
func Share(rank, ranks, gpus int) int {
	if ranks <= gpus {
		return rank
	}
	return rank * gpus / ranks
}

// Node is a part of a job.
type Node struct {
	Name  string
	Ranks int
}

// Placed is a rank with its GPU.
type Placed struct {
	Rank int
	Node string
	GPU  *GPU // nil: its node has none
}

// Map gives every rank of a job its GPU. Ranks are numbered node by node, as schedulers and MPI do by themselves.
func Map(all []GPU, job []Node) []Placed {
	var placed []Placed
	for _, n := range job {
		there := Of(all, n.Name)
		for local := range n.Ranks {
			p := Placed{Rank: len(placed), Node: n.Name}
			if len(there) > 0 {
				p.GPU = &there[Share(local, n.Ranks, len(there))]
			}
			placed = append(placed, p)
		}
	}
	return placed
}
