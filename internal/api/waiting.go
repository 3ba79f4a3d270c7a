package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/elastic"
	"muster/internal/spec"
	"muster/internal/store"
)

// Waiting are the jobs that wait in a cluster's queues, as its head told last.
type Waiting struct {
	Total int          `json:"total" doc:"jobs that wait; every task of a job array is one"`
	Jobs  []WaitingJob `json:"jobs" doc:"those first that more nodes would help, then by priority; at most 200"`
}

// WaitingJob is a job that waits, or all tasks of a job array that wait for the same.
type WaitingJob struct {
	ID       int       `json:"id"`
	Tasks    int       `json:"tasks" doc:"1, or how many of the array"`
	User     string    `json:"user"`
	Queues   []string  `json:"queues" doc:"any of them will do"`
	Nodes    int       `json:"nodes" doc:"at least"`
	CPUs     int       `json:"cpus" doc:"on all its nodes together"`
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason" doc:"Slurm's own"`
	WaitsFor string    `json:"waits_for" doc:"in words"`
}

// waitingView says of each waiting job what it waits for; nil if none waits.
func waitingView(c store.Cluster, nodes []store.Node) *Waiting {
	i := slices.IndexFunc(nodes, func(n store.Node) bool { return n.Role == protocol.Head })
	if i < 0 || nodes[i].Seen.Waiting.Total == 0 {
		return nil
	}
	seen := nodes[i].Seen.Waiting
	view := &Waiting{Total: seen.Total, Jobs: []WaitingJob{}}
	for _, job := range seen.Jobs {
		view.Jobs = append(view.Jobs, WaitingJob{ID: job.ID, Tasks: job.Tasks, User: job.User, Queues: job.Queues, Nodes: job.Nodes, CPUs: job.CPUs,
			Since: job.Since, Reason: job.Reason, WaitsFor: waitsFor(c, nodes, job)})
	}
	return view
}

// waitsFor is what a job waits for: nodes that come, machines that nobody has free, or what Slurm says. Of several queues,
// the first that could run it counts.
func waitsFor(c store.Cluster, nodes []store.Node, job protocol.WaitingJob) string {
	never := ""
	for _, q := range c.Spec.Queues {
		if !slices.Contains(job.Queues, q.Name) {
			continue
		}
		why := elastic.Why(sizeOf(q, nodes), job)
		if why == "" {
			return nodesOf(c, q, nodes, job)
		}
		if never == "" {
			never = why
		}
	}
	if never == "" {
		never = "Slurm says " + job.Reason
	}
	return never
}

// sizeOf is as much of a queue as a job's fitting depends on.
func sizeOf(q spec.Queue, nodes []store.Node) elastic.Queue {
	size := elastic.Queue{Name: q.Name, Min: *q.Min, Max: *q.Max}
	for _, n := range nodes {
		if cpus := n.Seen.Facts.CPUs; n.Queue == q.Name && cpus > 0 && (size.CPUs == 0 || cpus < size.CPUs) {
			size.CPUs = cpus
		}
	}
	return size
}

// nodesOf says which nodes of its queue a job waits for.
func nodesOf(c store.Cluster, q spec.Queue, nodes []store.Node, job protocol.WaitingJob) string {
	var parts, coming []string
	there := 0
	for _, n := range nodes {
		if n.Queue != q.Name || n.Desired != store.Present {
			continue
		}
		if there++; n.Phase != store.Ready {
			coming = append(coming, n.Name+" "+string(n.Phase))
		}
	}
	if len(coming) > 0 {
		parts = append(parts, strings.Join(coming, ", "))
	}
	want := c.Wants(q)
	switch missing := want - there; {
	case missing > 0 && c.Short != "":
		parts = append(parts, fmt.Sprintf("%d more of queue %s: %s", missing, q.Name, c.Short))
	case missing > 0:
		parts = append(parts, fmt.Sprintf("%d more of queue %s, to be placed", missing, q.Name))
	case len(coming) == 0 && want == *q.Max:
		parts = append(parts, fmt.Sprintf("free nodes: queue %s has all that it may have; Slurm says %s", q.Name, job.Reason))
	case len(coming) == 0:
		parts = append(parts, "Slurm says "+job.Reason)
	}
	return strings.Join(parts, "; ")
}
