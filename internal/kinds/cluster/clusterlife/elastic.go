package clusterlife

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
	"muster/internal/place/elastic"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// headSilence is how old the head's last report may be for its jobs and nodes to be believed: what the head does not tell of is
// neither idle nor wanted.
const headSilence = 20 * time.Second

// growth is a cluster's elastic queues, its waiting jobs, and what follows for each queue.
type growth struct {
	queues    []elastic.Queue
	waiting   []protocol.WaitingJob
	decisions map[string]elastic.Decision
	learned   map[string]elastic.Learned
}

// look is when to decide again although nothing has changed; most is the longest pause.
func (c growth) look(most time.Duration) time.Duration {
	for _, d := range c.decisions {
		if d.Look > 0 {
			most = min(most, d.Look)
		}
	}
	return most
}

// targets are the decisions as the cluster's row keeps them.
func (c growth) targets() map[string]int {
	targets := map[string]int{}
	for _, q := range c.queues {
		targets[q.Name] = c.decisions[q.Name].Target
	}
	return targets
}

// growthOf decides for a cluster's elastic queues as they stand. Without a head that tells, nothing is decided.
func growthOf(c cluster.Cluster, nodes []node.Node, now time.Time, guess map[string]protocol.Size) growth {
	var found growth
	i := slices.IndexFunc(nodes, func(n node.Node) bool { return n.Role == protocol.Head })
	if i < 0 || nodes[i].Phase != core.Ready || now.Sub(nodes[i].Seen.At) > headSilence || c.Desired != core.Present {
		return found
	}
	found.waiting = nodes[i].Seen.Waiting.Jobs
	found.learned = map[string]elastic.Learned{}
	for _, q := range c.Spec.Queues {
		if q.Elastic() {
			learned := learn(c.Learned[q.Name], q, nodes, guess[q.Name])
			found.queues = append(found.queues, queueOf(c, q, nodes, now, learned))
			found.learned[q.Name] = learned
		}
	}
	found.decisions = elastic.Decide(found.queues, found.waiting, now)
	for name, d := range found.decisions {
		learned := found.learned[name]
		learned.Doubts = d.Doubts
		found.learned[name] = learned
	}
	return found
}

// learn adds to what is known of a queue what its nodes show.
func learn(before elastic.Learned, q spec.Queue, nodes []node.Node, guess protocol.Size) elastic.Learned {
	learned := before
	if !slices.Equal(before.Classes, q.Classes()) {
		learned = elastic.Learned{Classes: q.Classes()}
	}
	var shown protocol.Size
	for _, n := range nodes {
		if n.Queue == q.Name && n.Seen.Scheduler != nil {
			shown = shown.Least(n.Seen.Scheduler.Size)
		}
	}
	switch {
	case shown.CPUs > 0:
		learned.Size, learned.Seen = shown, true
	case !learned.Seen && guess.CPUs > 0:
		learned.Size = guess
	}
	return learned
}

func queueOf(c cluster.Cluster, q spec.Queue, nodes []node.Node, now time.Time, learned elastic.Learned) elastic.Queue {
	queue := elastic.Queue{Name: q.Name, Min: *q.Min, Max: *q.Max, IdleAfter: spec.Duration(q.IdleAfter), Target: c.Wants(q),
		Size: learned.Size, Doubts: learned.Doubts}
	for _, n := range nodes {
		if n.Queue != q.Name || n.Role == protocol.Head || n.Desired != core.Present {
			continue
		}
		node := elastic.Node{Busy: n.Seen.Scheduler.Working(), Shut: n.Seen.Scheduler.Closed()}
		if n.Phase == core.Ready && !n.Seen.IdleAt.IsZero() {
			node.Idle = max(now.Sub(n.Seen.IdleAt), time.Millisecond)
		}
		queue.Nodes = append(queue.Nodes, node)
	}
	return queue
}

// resize decides how many nodes each elastic queue is to have. changed says that the outcome writes other numbers than
// before; the cluster then looks again at once.
func (w Handlers) resize(ctx context.Context, c clusterView) (found growth, o core.Outcome, changed bool) {
	if !slices.ContainsFunc(c.Spec.Queues, spec.Queue.Elastic) {
		return found, o, false
	}
	guess, err := w.guess(ctx, c)
	if err != nil {
		return found, core.Retry(err), true
	}
	found = growthOf(c.Cluster, c.nodes, c.now, guess)
	if len(found.queues) == 0 || found.stands(c.Cluster) {
		return found, o, false
	}
	return found, core.WaitFor(time.Millisecond, "%s", c.Reason).With(func(ctx context.Context, tx *core.Tx) error {
		fresh, err := cluster.Get(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		members, err := node.Of(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		// A job may have begun since, or the file may have changed: then the next look decides again.
		now := growthOf(fresh, members, c.now, guess)
		if fresh.Generation != c.Generation || !maps.Equal(now.targets(), found.targets()) {
			return nil
		}
		return now.carryOut(ctx, tx, fresh, members)
	}), true
}

// stands says that the cluster's row has it all already.
func (c growth) stands(now cluster.Cluster) bool {
	return maps.Equal(c.targets(), now.Targets) && maps.EqualFunc(c.learned, now.Learned, elastic.Learned.Same)
}

// carryOut writes the targets, lets nodes go that are too many, and tells why. Missing nodes come by refill.
func (f growth) carryOut(ctx context.Context, tx *core.Tx, c cluster.Cluster, members []node.Node) error {
	event := func(kind, format string, args ...any) {
		tx.Log(core.Event{Type: kind, Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Text: fmt.Sprintf(format, args...)})
	}
	before := map[string]int{}
	for _, q := range c.Spec.Queues {
		before[q.Name] = c.Wants(q)
	}
	c.Targets = f.targets()
	_, surplus := c.Shape(members)
	for _, q := range f.queues {
		d := f.decisions[q.Name]
		switch {
		case d.Target > before[q.Name]:
			event("queue.waits", "%s for %s of queue %s", waits(d.For), words.Count(d.Asked, "node"), q.Name)
			event("queue.grows", "queue %s grows from %d to %s", q.Name, before[q.Name], words.Count(d.Target, "node"))
		case d.Target < before[q.Name]:
			event("queue.shrinks", "queue %s shrinks from %d to %s%s", q.Name, before[q.Name], words.Count(d.Target, "node"),
				idlers(q, surplus))
		}
		for _, job := range f.waiting {
			if d.Doubts[job.ID].Vain && !c.Learned[q.Name].Doubts[job.ID].Vain {
				event("queue.alarm", "job %d did not start while as many nodes of queue %s as it needs were idle: the scheduler "+
					"says %s; the queue does not grow for it until it or the queue is changed", job.ID, q.Name, job.Reason)
			}
		}
	}
	for _, n := range surplus {
		if err := node.WantAbsent(ctx, tx, n.ID, 0); err != nil {
			return err
		}
	}
	if len(surplus) > 0 {
		if err := cluster.Inform(ctx, tx, c.ID); err != nil {
			return err
		}
	}
	return cluster.SetTargets(ctx, tx, c.ID, c.Targets, f.learned)
}

// waits names the jobs that wait: "job 3 waits", "jobs 3, 4, 5, and 2 more wait".
func waits(jobs []int) string {
	ids := lists.Map(jobs, strconv.Itoa)
	if len(ids) == 1 {
		return "job " + ids[0] + " waits"
	}
	return "jobs " + words.Few(ids) + " wait"
}

// idlers says which nodes of a queue go: ": cpu1, cpu2 had no job for 5m".
func idlers(q elastic.Queue, surplus []node.Node) string {
	var names []string
	for _, n := range surplus {
		if n.Queue == q.Name {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return ": no job waits for more nodes"
	}
	return ": " + words.Few(names) + " had no job for " + shortest(q.IdleAfter)
}

// shortest is a duration without its zero parts: 5m, not 5m0s.
func shortest(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// guess is what a node should have, for each elastic queue whose nodes the scheduler has not seen yet: the smallest node, by what
// its agent says, or its machine while none has come; of a queue without nodes that jobs wait for, the smallest machine of its
// classes. All machines are read for that alone. A node may give its jobs less, never more.
func (w Handlers) guess(ctx context.Context, c clusterView) (map[string]protocol.Size, error) {
	sizes := map[string]protocol.Size{}
	note := func(queue string, cpus, memory int) {
		sizes[queue] = sizes[queue].Least(protocol.Size{CPUs: cpus, Memory: memory, GPUs: protocol.MostGPUs})
	}
	for _, n := range c.nodes {
		note(n.Queue, n.Seen.Facts.CPUs, n.Seen.Facts.MemoryMiB)
	}
	unknown := func(queue string) bool { return sizes[queue].CPUs == 0 && !c.Learned[queue].Seen }
	if slices.ContainsFunc(c.nodes, func(n node.Node) bool { return unknown(n.Queue) && n.MachineID != "" }) {
		err := w.DB.View(ctx, func(tx *core.Tx) error {
			under, err := machine.Under(ctx, tx, c.ID)
			for _, n := range c.nodes {
				if n.Seen.Facts.CPUs == 0 {
					note(n.Queue, under[n.MachineID].Facts.CPUs, under[n.MachineID].Facts.MemoryMiB)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var without []spec.Queue
	for _, q := range c.Spec.Queues {
		if q.Elastic() && unknown(q.Name) && anyFor(c.nodes, q.Name) {
			without = append(without, q)
		}
	}
	if len(without) == 0 {
		return sizes, nil
	}
	return sizes, w.DB.View(core.Apart(ctx), func(tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		smallest := map[string]protocol.Size{} // by class
		for _, q := range without {
			for _, name := range q.Classes() {
				if _, known := smallest[name]; !known {
					smallest[name] = w.smallestOf(name, machines)
				}
				if size := smallest[name]; size.CPUs > 0 {
					note(q.Name, size.CPUs, size.Memory)
				}
			}
		}
		return err
	})
}

// smallestOf is the least that a node of a class may have.
func (w Handlers) smallestOf(name string, machines []machine.Machine) (size protocol.Size) {
	class, _ := w.Catalogue.Find(name)
	for _, m := range machines {
		if f := m.Facts; class.Has(m.Machine) {
			size = size.Least(protocol.Size{CPUs: f.CPUs, Memory: f.MemoryMiB, GPUs: protocol.MostGPUs})
		}
	}
	return size
}

// anyFor says whether a job waits for nodes of a queue.
func anyFor(nodes []node.Node, queue string) bool {
	return slices.ContainsFunc(nodes, func(n node.Node) bool {
		return slices.ContainsFunc(n.Seen.Waiting.Jobs, func(j protocol.WaitingJob) bool {
			return j.Grows && slices.Contains(j.Queues, queue)
		})
	})
}
