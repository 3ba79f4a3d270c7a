package elastic

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/protocol"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// job waits for nodes of queue cpu.
func job(nodes, cpus int, changes ...func(*protocol.WaitingJob)) protocol.WaitingJob {
	j := protocol.WaitingJob{ID: 1, Tasks: 1, Queues: []string{"cpu"}, Grows: true, Reason: "Resources",
		Request: protocol.Request{Nodes: nodes, CPUs: cpus, NodeCPUs: 1, Ranks: cpus}}
	for _, change := range changes {
		change(&j)
	}
	return j
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

func decided(q Queue, jobs []protocol.WaitingJob) Decision {
	return Decide([]Queue{q}, jobs, noon)[q.Name]
}

func TestAQueueHasTheNodesThatItsJobsAskFor(t *testing.T) {
	type jobs = []protocol.WaitingJob
	whole := job(1, 1, func(j *protocol.WaitingJob) { j.Whole = true })
	held := job(1, 1, func(j *protocol.WaitingJob) { j.Grows = false })
	array := job(1, 1, func(j *protocol.WaitingJob) { j.Tasks = 6 })
	throttled := job(1, 2, func(j *protocol.WaitingJob) { j.Tasks, j.AtOnce, j.Whole = 20, 1, true })
	wide := job(1, 1, func(j *protocol.WaitingJob) { j.NodeCPUs = 9 })
	large := job(1, 2, func(j *protocol.WaitingJob) { j.CPUMemory = 1500 }) // half of a node's CPUs, three quarters of its memory
	named := job(1, 1, func(j *protocol.WaitingJob) { j.Fixed = "it asks for cpu2 by name" })
	const fresh, old = time.Minute, 10 * time.Minute
	for name, c := range map[string]struct {
		min, max, target int
		nodes            []Node
		jobs             jobs
		want             int
		look             time.Duration
	}{
		"nothing to do":                           {0, 8, 0, nil, nil, 0, 0},
		"never fewer than min":                    {2, 8, 0, nil, nil, 2, 0},
		"three nodes for one job":                 {0, 8, 0, nil, jobs{job(3, 3)}, 3, 0},
		"on top of busy ones":                     {0, 8, 2, busy(2), jobs{job(3, 3)}, 5, 0},
		"on top of those that take no jobs":       {0, 8, 1, []Node{{Shut: true, Idle: old}}, jobs{job(1, 1)}, 2, 0},
		"which go when nobody waits":              {0, 8, 1, []Node{{Shut: true, Idle: old}}, nil, 0, 0},
		"never more than max":                     {0, 4, 2, busy(2), jobs{job(3, 3)}, 4, 0},
		"a job larger than max asks for none":     {0, 2, 0, nil, jobs{job(3, 3)}, 0, 0},
		"small jobs share nodes":                  {0, 8, 0, nil, jobs{job(1, 1), job(1, 1), job(1, 2)}, 1, 0},
		"as far as their memory goes":             {0, 8, 0, nil, jobs{large, large, job(1, 2)}, 2, 0},
		"whole nodes are not shared":              {0, 8, 0, nil, jobs{whole, whole}, 2, 0},
		"CPUs that one node has not":              {0, 8, 0, nil, jobs{job(1, 6)}, 2, 0},
		"more CPUs on one node than any has":      {0, 8, 0, nil, jobs{wide}, 0, 0},
		"all tasks of an array":                   {0, 8, 0, nil, jobs{array}, 2, 0},
		"those that may run at once":              {0, 8, 0, nil, jobs{throttled}, 1, 0},
		"held jobs ask for none":                  {0, 8, 0, nil, jobs{held}, 0, 0},
		"nor do those that name a node":           {0, 8, 0, nil, jobs{named}, 0, 0},
		"idle nodes stay for a while":             {0, 8, 2, idle(fresh, fresh), nil, 2, 4 * time.Minute},
		"then they go":                            {0, 8, 2, idle(old, fresh), nil, 1, 4 * time.Minute},
		"but not below min":                       {2, 8, 2, idle(old, old), nil, 2, 0},
		"nor while they are wanted":               {0, 8, 2, idle(old, old), jobs{job(2, 2)}, 2, vainAfter},
		"busy ones stay":                          {0, 8, 3, append(busy(2), idle(old)...), nil, 2, 0},
		"nodes on their way stay":                 {0, 8, 2, make([]Node, 2), nil, 2, 0},
		"those without a node yet are given up":   {0, 8, 5, busy(1), nil, 1, 0},
		"a smaller max holds for busy nodes, too": {0, 1, 1, busy(3), nil, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := Queue{Name: "cpu", Min: c.min, Max: c.max, IdleAfter: 5 * time.Minute, Target: c.target, Nodes: c.nodes,
				Size: protocol.Size{CPUs: 4, Memory: 4000}}
			if d := decided(q, c.jobs); d.Target != c.want || d.Look != c.look {
				t.Errorf("%+v, not %d, %s", d, c.want, c.look)
			}
		})
	}
}

func TestAJobIsCountedForOneQueueAlone(t *testing.T) {
	both := job(3, 3)
	both.Queues = []string{"small", "cpu"}
	d := Decide([]Queue{{Name: "small", Max: 2}, {Name: "cpu", Max: 8}}, []protocol.WaitingJob{both}, noon)
	if d["small"].Target != 0 || d["cpu"].Target != 3 {
		t.Error(d)
	}
}

func TestAJobThatNoSizeOfTheQueueCanRunIsToldWhyInNumbers(t *testing.T) {
	size := protocol.Size{CPUs: 2, Threads: 1, Memory: 4096, Tmp: 1000, GPUs: 1}
	for want, r := range map[string]protocol.Request{
		"it asks for 3 CPUs on one node, but nodes of queue cpu have 2": {Ranks: 1, RankCPUs: 3},
		"it asks for 5000 MiB of memory on one node, but nodes of queue cpu have 4096": {
			NodeMemory: 5000},
		"it asks for 6000 MiB of memory on one node, but nodes of queue cpu have 4096": {
			Ranks: 1, RankCPUs: 2, CPUMemory: 3000},
		"it asks for 2000 MiB in /tmp on one node, but nodes of queue cpu have 1000": {NodeTmp: 2000},
		"it asks for 2 GPUs on one node, but nodes of queue cpu have 1":              {RankGPUs: 2},
		"it may have 1 nodes and needs 2 of queue cpu, which have 2 CPUs and 4096 MiB of memory each": {
			Ranks: 2, CPUMemory: 3072, MostNodes: 1},
		"it needs 6 nodes, but queue cpu may have 5, which have 2 CPUs and 4096 MiB of memory each": {
			Ranks: 6, CPUMemory: 3072},
		"it needs 6 nodes, but queue cpu may have 5, which have 2 CPUs and 1 GPUs each": {GPUs: 6},
		"it asks for 6 nodes, but queue cpu may have 5":                                 {Nodes: 6},
	} {
		if n, why := Needs(Queue{Name: "cpu", Max: 5, Size: size}, r); why != want || n != 0 {
			t.Errorf("%+v: %d, %q, not %q", r, n, why, want)
		}
	}
}

// TestAJobThatDoesNotStartOnIdleNodesIsGivenUp: a queue must not grow for ever for a job that cannot run, for whatever reason.
func TestAJobThatDoesNotStartOnIdleNodesIsGivenUp(t *testing.T) {
	q := Queue{Name: "cpu", Scheduler: "Slurm", Max: 4, IdleAfter: time.Second, Size: protocol.Size{CPUs: 2}, Target: 2}
	stuck := job(2, 4, func(j *protocol.WaitingJob) { j.Reason = "BadConstraints" })
	jobs, now := []protocol.WaitingJob{stuck}, noon
	decide := func(nodes ...Node) Decision {
		q.Nodes = nodes
		d := Decide([]Queue{q}, jobs, now)["cpu"]
		q.Target, q.Doubts = d.Target, d.Doubts
		return d
	}
	if d := decide(idle(time.Second, time.Second)...); d.Target != 2 || len(d.Doubts) != 0 || d.Look != doubtAfter-time.Second {
		t.Errorf("nodes that have just come: %+v", d)
	}
	if d := decide(idle(time.Minute, time.Minute)...); d.Target != 2 || d.Doubts[1].Vain || d.Look != vainAfter {
		t.Errorf("nodes idle for a minute: %+v", d)
	}
	now = now.Add(vainAfter)
	if d := decide(idle(3*time.Minute, 3*time.Minute)...); d.Target != 0 || !d.Doubts[1].Vain {
		t.Errorf("nodes idle for three minutes: %+v", d)
	}
	if why := Why(q, stuck); !strings.HasPrefix(why, "it did not start while as many nodes as it needs were idle") ||
		!strings.HasSuffix(why, "Slurm says BadConstraints") {
		t.Error(why)
	}
	jobs[0].Grows, jobs[0].Request = false, protocol.Request{Nodes: 2} // as a job is told of that waits for a person
	if d := decide(); d.Target != 0 || !d.Doubts[1].Vain {
		t.Errorf("a job that is held: %+v", d)
	}
	jobs[0], now = stuck, now.Add(time.Hour)
	if d := decide(); d.Target != 0 {
		t.Errorf("it grows again: %+v", d)
	}
	jobs[0].CPUMemory = 100
	if d := decide(); d.Target != 2 || len(d.Doubts) != 0 {
		t.Errorf("the job was changed, and: %+v", d)
	}
	jobs[0].CPUMemory, q.Doubts = 0, map[int]Doubt{1: {Asks: q.asks(stuck), Since: noon, Vain: true}}
	q.Max = 8
	if d := decide(); d.Target != 2 {
		t.Errorf("the queue was changed, and: %+v", d)
	}
	jobs = nil
	if d := decide(); len(d.Doubts) != 0 {
		t.Errorf("the job is gone, and: %+v", d)
	}
}

func someQueue(t *rapid.T) Queue {
	q := Queue{Name: "cpu", IdleAfter: time.Duration(rapid.IntRange(1, 10).Draw(t, "idle after")) * time.Minute,
		Size: protocol.Size{CPUs: rapid.IntRange(0, 4).Draw(t, "cpus"), Memory: rapid.IntRange(0, 4).Draw(t, "memory")}}
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
	for id := range rapid.IntRange(0, 5).Draw(t, "jobs") {
		j := job(rapid.IntRange(1, 5).Draw(t, "nodes"), rapid.IntRange(1, 8).Draw(t, "cpus"))
		j.ID, j.Tasks, j.AtOnce = id, rapid.IntRange(1, 3).Draw(t, "tasks"), rapid.IntRange(0, 2).Draw(t, "at once")
		j.Whole, j.Grows = rapid.Bool().Draw(t, "whole"), rapid.Bool().Draw(t, "grows")
		j.CPUMemory = rapid.IntRange(0, 2).Draw(t, "memory")
		jobs = append(jobs, j)
	}
	return jobs
}

func TestWhateverADecisionIsItKeepsItsWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, jobs := someQueue(t), someJobs(t)
		d := decided(q, jobs)
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
				needs, _ := Needs(q, j.Request)
				largest = max(largest, needs)
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
		if next := decided(again, jobs); len(q.Nodes) <= d.Target && next.Target != d.Target {
			t.Fatalf("%d, then %d", d.Target, next.Target)
		}
		// Once all jobs have ended and all nodes have been idle for long, only min is left.
		quiet := again
		quiet.Nodes = make([]Node, d.Target)
		for i := range quiet.Nodes {
			quiet.Nodes[i].Idle = q.IdleAfter
		}
		if last := decided(quiet, nil); last.Target != q.Min {
			t.Fatalf("%d nodes stay for nothing; min is %d", last.Target, q.Min)
		}
	})
}
