// Package elastic decides how many nodes a queue is to have that grows and shrinks with its jobs: pure functions, no
// I/O, the same answer for the same question.
//
// What enters: a queue's bounds, what its nodes do, and which jobs wait. What leaves: a number of nodes; for a job, how
// many it asks for, or why it asks for none.
package elastic

import (
	"fmt"
	"slices"
	"time"

	"muster/internal/noded/protocol"
)

// Queue is one queue as it stands.
type Queue struct {
	Name      string
	Scheduler string // its title
	Min, Max  int
	IdleAfter time.Duration
	CPUs      int // of a node, the smallest one; 0 if nobody knows
	Target    int // how many nodes it is to have, as decided before
	Nodes     []Node
}

// Node is a node of a queue that is not on its way out.
type Node struct {
	Busy bool          // it has a job
	Idle time.Duration // since when it could have one and has none; 0 while it has one or is on its way
}

// Decision is how many nodes a queue is to have.
type Decision struct {
	Target int
	Asked  int           // how many nodes its waiting jobs ask for, whatever its bounds
	For    []int         // the jobs that ask for them, in their order
	Look   time.Duration // when to decide again although nothing has changed; 0: no need
}

// Share gives every job to the first of its queues that grows for it.
func Share(queues []Queue, jobs []protocol.WaitingJob) map[string][]protocol.WaitingJob {
	shares := map[string][]protocol.WaitingJob{}
	for _, job := range jobs {
		for _, name := range job.Queues {
			i := slices.IndexFunc(queues, func(q Queue) bool { return q.Name == name })
			if i >= 0 && Why(queues[i], job) == "" {
				shares[name] = append(shares[name], job)
				break
			}
		}
	}
	return shares
}

// Decide says how many nodes the queue is to have: those that have jobs, and those that its waiting jobs ask for,
// within its bounds. It grows at once. It shrinks by nodes that have been idle for long enough, so that it does not flap;
// what was to come and has no node yet is given up at once.
func Decide(q Queue, jobs []protocol.WaitingJob) Decision {
	var d Decision
	singles := 0 // CPUs of jobs that share a node with others
	for _, job := range jobs {
		if Why(q, job) != "" {
			continue
		}
		d.For = append(d.For, job.ID)
		switch each := Needs(q, job); {
		case each == 1 && !job.Whole && q.CPUs > 0:
			singles += job.Tasks * max(job.CPUs, 1)
		default:
			d.Asked += job.Tasks * each
		}
	}
	if q.CPUs > 0 {
		d.Asked += atLeast(singles, q.CPUs)
	}
	busy, expired := 0, 0
	for _, n := range q.Nodes {
		switch {
		case n.Busy:
			busy++
		case n.Idle >= q.IdleAfter:
			expired++
		case n.Idle > 0 && (d.Look == 0 || q.IdleAfter-n.Idle < d.Look):
			d.Look = q.IdleAfter - n.Idle
		}
	}
	want := within(busy+d.Asked, q)
	if d.Target = want; want < q.Target {
		d.Target = within(max(want, min(q.Target, len(q.Nodes))-expired), q)
	}
	return d
}

func within(n int, q Queue) int { return min(max(n, q.Min), q.Max) }

// atLeast is how many nodes hold so many CPUs.
func atLeast(cpus, each int) int { return (cpus + each - 1) / each }

// Needs is how many nodes a job, or one task of an array, asks for.
func Needs(q Queue, job protocol.WaitingJob) int {
	nodes := max(job.Nodes, 1)
	if q.CPUs > 0 {
		nodes = max(nodes, atLeast(job.CPUs, q.CPUs))
	}
	return nodes
}

// Why says why a job does not make the queue grow; "" if it does.
func Why(q Queue, job protocol.WaitingJob) string {
	needs := Needs(q, job)
	switch {
	case !slices.Contains(job.Queues, q.Name):
		return "it is not in queue " + q.Name
	case !job.Grows:
		return q.Scheduler + " says " + job.Reason
	case q.CPUs > 0 && job.NodeCPUs > q.CPUs:
		return fmt.Sprintf("it asks for %d CPUs on one node, but nodes of queue %s have %d", job.NodeCPUs, q.Name, q.CPUs)
	case needs > q.Max:
		return fmt.Sprintf("it asks for %d nodes, but queue %s may have %d", needs, q.Name, q.Max)
	}
	return ""
}
