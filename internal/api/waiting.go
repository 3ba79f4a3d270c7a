package api

import (
	"fmt"
	"slices"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/place/elastic"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// waitingView says of each waiting job what it waits for, by the words of a scheduler of that title; nil if none waits.
func waitingView(title string, c cluster.Cluster, nodes []node.Node) *apiv1.Waiting {
	i := slices.IndexFunc(nodes, func(n node.Node) bool { return n.Role == protocol.Head })
	if i < 0 || nodes[i].Seen.Waiting.Total == 0 {
		return nil
	}
	seen := nodes[i].Seen.Waiting
	return &apiv1.Waiting{Total: seen.Total, Jobs: some(each(seen.Jobs, func(job protocol.WaitingJob) apiv1.WaitingJob {
		return apiv1.WaitingJob{ID: job.ID, Tasks: job.Tasks, User: job.User, Queues: some(job.Queues), Nodes: job.Nodes,
			CPUs: job.CPUs, Since: job.Since, Reason: job.Reason, WaitsFor: waitsFor(title, c, nodes, job)}
	}))}
}

// waitsFor is what a job waits for: nodes that come, machines that are not free, or what the scheduler says. Of several queues,
// the first that could run it counts.
func waitsFor(title string, c cluster.Cluster, nodes []node.Node, job protocol.WaitingJob) string {
	never := ""
	for _, q := range c.Spec.Queues {
		if !slices.Contains(job.Queues, q.Name) {
			continue
		}
		known := c.Learned[q.Name]
		why := elastic.Why(elastic.Queue{Name: q.Name, Scheduler: title, Min: *q.Min, Max: *q.Max, Size: known.Size,
			Doubts: known.Doubts}, job)
		if why == "" {
			return nodesOf(title, c, q, nodes, job)
		}
		if never == "" {
			never = why
		}
	}
	if never == "" {
		never = title + " says " + job.Reason
	}
	return never
}

// nodesOf says which nodes of its queue a job waits for.
func nodesOf(title string, c cluster.Cluster, q spec.Queue, nodes []node.Node, job protocol.WaitingJob) string {
	var parts, coming []string
	there := 0
	for _, n := range nodes {
		if n.Queue != q.Name || n.Desired != core.Present {
			continue
		}
		if there++; n.Phase != core.Ready {
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
		parts = append(parts, fmt.Sprintf("free nodes: queue %s has all that it may have; %s says %s", q.Name, title, job.Reason))
	case len(coming) == 0:
		parts = append(parts, title+" says "+job.Reason)
	}
	return strings.Join(parts, "; ")
}
