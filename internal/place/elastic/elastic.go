// Package elastic decides how many nodes a queue is to have that grows and shrinks with its jobs: pure functions, no
// I/O, the same answer for the same question.
//
// What enters: a queue's bounds, what its nodes do, and which jobs wait. What leaves: a number of nodes; for a job, how
// many it asks for, or why it asks for none.
package elastic

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"muster/internal/protocol"
)

// Queue is one queue as it stands.
type Queue struct {
	Name      string
	Scheduler string // its title
	Min, Max  int
	IdleAfter time.Duration
	Size      protocol.Size // of a node, the smallest one
	Target    int           // how many nodes it is to have, as decided before
	Nodes     []Node
	Doubts    map[int]Doubt // by the job's ID
}

// Node is a node of a queue that is not on its way out.
type Node struct {
	Busy bool          // it has a job
	Shut bool          // it takes no jobs
	Idle time.Duration // since when it could have one and has none; 0 while it has one or is on its way
}

// Doubt is of a job that waits although as many nodes as it needs are idle.
type Doubt struct {
	Asks  string    `json:"asks"`  // what the job asks for and the queue has, in short: a change ends the doubt
	Since time.Time `json:"since"` // that it has been so
	// Vain says that it was so for long: the queue does not grow for the job.
	Vain bool `json:"vain,omitempty"`
}

// Nodes are looked at for a job that does not start when they have been idle for as long as doubtAfter, and then given up for it
// after vainAfter: schedulers look at all their jobs at least once a minute.
const (
	doubtAfter = 30 * time.Second
	vainAfter  = 2 * time.Minute
)

// Decision is how many nodes a queue is to have.
type Decision struct {
	Target int
	Asked  int           // how many nodes its waiting jobs ask for, whatever its bounds
	For    []int         // the jobs that ask for them, in their order
	Look   time.Duration // when to decide again although nothing has changed; 0: no need
	Doubts map[int]Doubt // as they are now
}

// Decide says how many nodes each queue is to have: those that have jobs, and those that its waiting jobs ask for, within its
// bounds. It grows at once. It shrinks by nodes that have been idle for long enough, so that it does not flap; what was to come
// and has no node yet is given up at once. A job counts for the first of its queues that grows for it, and for none that had
// idle nodes for it for long in vain.
func Decide(queues []Queue, jobs []protocol.WaitingJob, now time.Time) map[string]Decision {
	queues = slices.Clone(queues)
	decisions := map[string]Decision{}
	for i, q := range queues {
		var d Decision
		queues[i].Doubts, d.Look = q.doubts(jobs, now)
		d.Doubts = queues[i].Doubts
		decisions[q.Name] = d
	}
	shares := share(queues, jobs)
	for _, q := range queues {
		decisions[q.Name] = q.decide(decisions[q.Name], shares[q.Name])
	}
	return decisions
}

// share gives every job to the first of its queues that grows for it.
func share(queues []Queue, jobs []protocol.WaitingJob) map[string][]protocol.WaitingJob {
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

// decide is about jobs that the queue grows for.
func (q Queue) decide(d Decision, jobs []protocol.WaitingJob) Decision {
	p := packer{empty: whole(q.Size), most: q.Max}
	for _, job := range jobs {
		needs, _ := Needs(q, job.Request)
		d.For = append(d.For, job.ID)
		tasks := job.Tasks
		if job.AtOnce > 0 {
			tasks = min(tasks, job.AtOnce)
		}
		if needs == 1 && !job.Whole && q.Size.CPUs > 0 {
			p.add(takes(q.Size, job.Request), tasks)
			continue
		}
		d.Asked += tasks * needs
	}
	d.Asked += p.nodes
	busy, expired := 0, 0
	for _, n := range q.Nodes {
		switch {
		case n.Busy, n.Shut && d.Asked > 0:
			busy++
		case n.Idle >= q.IdleAfter:
			expired++
		case n.Idle > 0:
			d.Look = sooner(d.Look, q.IdleAfter-n.Idle)
		}
	}
	want := within(busy+d.Asked, q)
	if d.Target = want; want < q.Target {
		d.Target = within(max(want, min(q.Target, len(q.Nodes))-expired), q)
	}
	return d
}

// sooner is the shorter of two pauses; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// doubts are of jobs that wait beside as many idle nodes as they and those before them need, and when to look at them again. What
// was in vain stays so, whatever nodes there are and whatever else the job waits for, until it or the queue has changed.
func (q Queue) doubts(jobs []protocol.WaitingJob, now time.Time) (doubts map[int]Doubt, look time.Duration) {
	var idle []time.Duration // the longest first
	for _, n := range q.Nodes {
		if n.Idle > 0 && !n.Busy && !n.Shut {
			idle = append(idle, n.Idle)
		}
	}
	slices.SortFunc(idle, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	doubts = map[int]Doubt{}
	before := 0 // nodes that a job and those before it need
	for _, job := range jobs {
		doubt := q.Doubts[job.ID]
		if asks := q.asks(job); job.Grows && doubt.Asks != asks { // what others ask for is not known in full
			doubt = Doubt{Asks: asks, Since: now.UTC().Truncate(time.Millisecond)}
		}
		if doubt.Vain {
			doubts[job.ID] = doubt
			continue
		}
		needs, why := Needs(q, job.Request)
		if why != "" || !job.Grows || !slices.Contains(job.Queues, q.Name) {
			continue
		}
		if before += needs; before > len(idle) {
			continue
		}
		if young := doubtAfter - idle[before-1]; young > 0 {
			look = sooner(look, young)
			continue
		}
		left := vainAfter - now.Sub(doubt.Since)
		if doubt.Vain = left <= 0; !doubt.Vain {
			look = sooner(look, left)
		}
		doubts[job.ID] = doubt
	}
	return doubts, look
}

// asks is short for what a job asks for and what the queue may have.
func (q Queue) asks(job protocol.WaitingJob) string {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%+v %d", job.Request, q.Max)
	return fmt.Sprintf("%x", sum.Sum64())
}

func within(n int, q Queue) int { return min(max(n, q.Min), q.Max) }

// Why says why a job does not make the queue grow; "" if it does.
func Why(q Queue, job protocol.WaitingJob) string {
	_, why := Needs(q, job.Request)
	switch {
	case !slices.Contains(job.Queues, q.Name):
		return "it is not in queue " + q.Name
	case !job.Grows:
		return q.Scheduler + " says " + job.Reason
	case job.Fixed != "":
		return job.Fixed + ", and no new node has that; " + q.Scheduler + " says " + job.Reason
	case why != "":
		return why
	case q.Doubts[job.ID].Vain:
		return fmt.Sprintf("it did not start while as many nodes as it needs were idle, so queue %s does not grow for it until it"+
			" or the queue is changed; %s says %s", q.Name, q.Scheduler, job.Reason)
	}
	return ""
}

// Learned is what is known of an elastic queue whether it has nodes now or not.
type Learned struct {
	Classes []string      `json:"classes"` // that its nodes were of; those of others have taught nothing
	Size    protocol.Size `json:"size"`    // of a node
	Seen    bool          `json:"seen"`    // by the scheduler, on nodes; else it is what machines should give
	Doubts  map[int]Doubt `json:"doubts,omitempty"`
}

// Same says that nothing was learned since.
func (l Learned) Same(before Learned) bool {
	return slices.Equal(l.Classes, before.Classes) && l.Size == before.Size && l.Seen == before.Seen &&
		maps.Equal(l.Doubts, before.Doubts)
}
