package elastic

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/noded/protocol"
)

// job waits for nodes of queue cpu.
func job(nodes, cpus int) protocol.WaitingJob {
	return protocol.WaitingJob{ID: 1, Tasks: 1, Queues: []string{"cpu"}, Nodes: nodes, CPUs: cpus, NodeCPUs: 1, Grows: true,
		Reason: "Resources"}
}

func busy(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i].Busy = true
	}
	return nodes
}

func idle(ages ...time.Duration) (nodes []Node) {
	for _, age := range ages {
		nodes = append(nodes, Node{Idle: age})
	}
	return nodes
}

func TestAQueueHasTheNodesThatItsJobsAskFor(t *testing.T) {
	whole, held, array, wide := job(1, 1), job(1, 1), job(1, 1), job(1, 9)
	whole.Whole, held.Grows, array.Tasks, wide.NodeCPUs = true, false, 6, 9
	const fresh, old = time.Minute, 10 * time.Minute
	for name, c := range map[string]struct {
		min, max, target int
		nodes            []Node
		jobs             []protocol.WaitingJob
		want             int
		look             time.Duration
	}{
		"nothing to do":                           {0, 8, 0, nil, nil, 0, 0},
		"never fewer than min":                    {2, 8, 0, nil, nil, 2, 0},
		"three nodes for one job":                 {0, 8, 0, nil, []protocol.WaitingJob{job(3, 3)}, 3, 0},
		"on top of busy ones":                     {0, 8, 2, busy(2), []protocol.WaitingJob{job(3, 3)}, 5, 0},
		"never more than max":                     {0, 4, 2, busy(2), []protocol.WaitingJob{job(3, 3)}, 4, 0},
		"a job larger than max asks for none":     {0, 2, 0, nil, []protocol.WaitingJob{job(3, 3)}, 0, 0},
		"small jobs share nodes":                  {0, 8, 0, nil, []protocol.WaitingJob{job(1, 1), job(1, 1), job(1, 2)}, 1, 0},
		"whole nodes are not shared":              {0, 8, 0, nil, []protocol.WaitingJob{whole, whole}, 2, 0},
		"CPUs that one node has not":              {0, 8, 0, nil, []protocol.WaitingJob{job(1, 6)}, 2, 0},
		"more CPUs on one node than any has":      {0, 8, 0, nil, []protocol.WaitingJob{wide}, 0, 0},
		"all tasks of an array":                   {0, 8, 0, nil, []protocol.WaitingJob{array}, 2, 0},
		"held jobs ask for none":                  {0, 8, 0, nil, []protocol.WaitingJob{held}, 0, 0},
		"idle nodes stay for a while":             {0, 8, 2, idle(fresh, fresh), nil, 2, 4 * time.Minute},
		"then they go":                            {0, 8, 2, idle(old, fresh), nil, 1, 4 * time.Minute},
		"but not below min":                       {2, 8, 2, idle(old, old), nil, 2, 0},
		"nor while they are wanted":               {0, 8, 2, idle(old, old), []protocol.WaitingJob{job(2, 2)}, 2, 0},
		"busy ones stay":                          {0, 8, 3, append(busy(2), idle(old)...), nil, 2, 0},
		"nodes on their way stay":                 {0, 8, 2, make([]Node, 2), nil, 2, 0},
		"those without a node yet are given up":   {0, 8, 5, busy(1), nil, 1, 0},
		"a smaller max holds for busy nodes, too": {0, 1, 1, busy(3), nil, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := Queue{Name: "cpu", Min: c.min, Max: c.max, IdleAfter: 5 * time.Minute, CPUs: 4, Target: c.target, Nodes: c.nodes}
			if d := Decide(q, c.jobs); d.Target != c.want || d.Look != c.look {
				t.Errorf("%+v, not %d, %s", d, c.want, c.look)
			}
		})
	}
}

func TestAJobIsCountedForOneQueueAlone(t *testing.T) {
	small, large := Queue{Name: "small", Max: 2}, Queue{Name: "cpu", Max: 8}
	both := job(3, 3)
	both.Queues = []string{"small", "cpu"}
	shares := Share([]Queue{small, large}, []protocol.WaitingJob{both})
	if len(shares["small"]) != 0 || len(shares["cpu"]) != 1 {
		t.Error(shares)
	}
}

func someQueue(t *rapid.T) Queue {
	q := Queue{Name: "cpu", IdleAfter: time.Duration(rapid.IntRange(1, 10).Draw(t, "idle after")) * time.Minute,
		CPUs: rapid.IntRange(0, 4).Draw(t, "cpus")}
	q.Max = rapid.IntRange(1, 12).Draw(t, "max")
	q.Min = rapid.IntRange(0, q.Max).Draw(t, "min")
	q.Target = rapid.IntRange(q.Min, q.Max).Draw(t, "target")
	for range rapid.IntRange(0, q.Target).Draw(t, "nodes") {
		n := Node{Busy: rapid.Bool().Draw(t, "busy")}
		if !n.Busy {
			n.Idle = time.Duration(rapid.IntRange(0, 12).Draw(t, "idle")) * time.Minute
		}
		q.Nodes = append(q.Nodes, n)
	}
	return q
}

func someJobs(t *rapid.T) (jobs []protocol.WaitingJob) {
	for range rapid.IntRange(0, 5).Draw(t, "jobs") {
		j := job(rapid.IntRange(1, 5).Draw(t, "nodes"), rapid.IntRange(1, 8).Draw(t, "cpus"))
		j.Tasks, j.Whole, j.Grows = rapid.IntRange(1, 3).Draw(t, "tasks"), rapid.Bool().Draw(t, "whole"), rapid.Bool().
			Draw(t, "grows")
		jobs = append(jobs, j)
	}
	return jobs
}

func TestWhateverADecisionIsItKeepsItsWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, jobs := someQueue(t), someJobs(t)
		d := Decide(q, jobs)
		if d.Target < q.Min || d.Target > q.Max {
			t.Fatalf("%d is outside %d to %d", d.Target, q.Min, q.Max)
		}
		working, expired, largest := 0, 0, 0
		for _, n := range q.Nodes {
			if n.Busy {
				working++
			} else if n.Idle >= q.IdleAfter {
				expired++
			}
		}
		for _, j := range jobs {
			if Why(q, j) == "" {
				largest = max(largest, Needs(q, j))
			}
		}
		if d.Target < working {
			t.Fatalf("%d, with %d at work", d.Target, working)
		}
		if d.Target < min(working+largest, q.Max) {
			t.Fatalf("%d, with %d at work and a job that asks for %d", d.Target, working, largest)
		}
		if d.Target < len(q.Nodes)-expired {
			t.Fatalf("%d of %d nodes, of which only %d have been idle for long", d.Target, len(q.Nodes), expired)
		}
		if len(jobs) == 0 && d.Target > max(q.Min, len(q.Nodes)) {
			t.Fatalf("%d nodes for no job, with %d there", d.Target, len(q.Nodes))
		}

		// No flapping: who has decided, decides the same again as long as nothing changes.
		again := q
		again.Target = d.Target
		if next := Decide(again, jobs); len(q.Nodes) <= d.Target && next.Target != d.Target {
			t.Fatalf("%d, then %d", d.Target, next.Target)
		}
		// Once all jobs have ended and all nodes have been idle for long, only min is left.
		quiet := again
		quiet.Nodes = make([]Node, d.Target)
		for i := range quiet.Nodes {
			quiet.Nodes[i].Idle = q.IdleAfter
		}
		if last := Decide(quiet, nil); last.Target != q.Min {
			t.Fatalf("%d nodes stay for nothing; min is %d", last.Target, q.Min)
		}
	})
}
