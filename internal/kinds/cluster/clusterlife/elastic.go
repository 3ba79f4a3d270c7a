package clusterlife

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
	"muster/internal/noded/protocol"
	"muster/internal/place/elastic"
	"muster/internal/spec"
)

// headSilence is how old the head's last report may be for its jobs and nodes to be believed: what nobody tells of is
// neither idle nor wanted.
const headSilence = 20 * time.Second

// growth is a cluster's elastic queues, its waiting jobs, and what follows for each queue.
type growth struct {
	queues    []elastic.Queue
	waiting   []protocol.WaitingJob
	decisions map[string]elastic.Decision
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

// targets are the decisions as the cluster's row keeps them; nil when they are there already.
func (c growth) targets(now map[string]int) map[string]int {
	if len(c.queues) == 0 {
		return nil
	}
	targets := map[string]int{}
	for _, q := range c.queues {
		targets[q.Name] = c.decisions[q.Name].Target
	}
	if maps.Equal(targets, now) {
		return nil
	}
	return targets
}

// growthOf decides for a cluster's elastic queues as they stand. Without a head that tells, nothing is decided.
func growthOf(c cluster.Cluster, nodes []node.Node, now time.Time, cpus map[string]int) growth {
	var found growth
	i := slices.IndexFunc(nodes, func(n node.Node) bool { return n.Role == protocol.Head })
	if i < 0 || nodes[i].Phase != core.Ready || now.Sub(nodes[i].Seen.At) > headSilence || c.Desired != core.Present {
		return found
	}
	found.waiting = nodes[i].Seen.Waiting.Jobs
	for _, q := range c.Spec.Queues {
		if q.Elastic() {
			found.queues = append(found.queues, queueOf(c, q, nodes, now, cpus))
		}
	}
	shares := elastic.Share(found.queues, found.waiting)
	found.decisions = map[string]elastic.Decision{}
	for _, q := range found.queues {
		found.decisions[q.Name] = elastic.Decide(q, shares[q.Name])
	}
	return found
}

func queueOf(c cluster.Cluster, q spec.Queue, nodes []node.Node, now time.Time, cpus map[string]int) elastic.Queue {
	queue := elastic.Queue{Name: q.Name, Min: *q.Min, Max: *q.Max, IdleAfter: spec.Duration(q.IdleAfter), Target: c.Wants(q),
		CPUs: cpus[q.Name]}
	for _, n := range nodes {
		if n.Queue != q.Name || n.Role == protocol.Head || n.Desired != core.Present {
			continue
		}
		node := elastic.Node{Busy: n.Seen.Scheduler.Working()}
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
	cpus, err := w.cpusOf(ctx, c)
	if err != nil {
		return found, core.Retry(err), true
	}
	found = growthOf(c.Cluster, c.nodes, c.now, cpus)
	targets := found.targets(c.Targets)
	if targets == nil {
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
		// A job may have begun since, or the file may have changed: then the next look decides anew.
		now := growthOf(fresh, members, c.now, cpus)
		if fresh.Generation != c.Generation || !maps.Equal(now.targets(nil), targets) {
			return nil
		}
		return now.carryOut(ctx, tx, fresh, members, targets)
	}), true
}

// carryOut writes the targets, lets nodes go that are too many, and tells why. Missing nodes come by refill.
func (f growth) carryOut(ctx context.Context, tx *core.Tx, c cluster.Cluster, members []node.Node, targets map[string]int) error {
	event := func(kind, format string, args ...any) {
		tx.Log(core.Event{Type: kind, Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Text: fmt.Sprintf(format, args...)})
	}
	before := map[string]int{}
	for _, q := range c.Spec.Queues {
		before[q.Name] = c.Wants(q)
	}
	c.Targets = targets
	surplus := admission.Surplus(c, members)
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
	return cluster.SetTargets(ctx, tx, c.ID, targets)
}

// waits names the jobs that wait: "job 3 waits", "jobs 3, 4, 5, and 2 more wait".
func waits(jobs []int) string {
	var ids []string
	for _, id := range jobs {
		ids = append(ids, strconv.Itoa(id))
	}
	if len(ids) == 1 {
		return "job " + ids[0] + " waits"
	}
	return "jobs " + life.Few(ids) + " wait"
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
	return ": " + life.Few(names) + " had no job for " + shortest(q.IdleAfter)
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

// cpusOf is how many CPUs the smallest node of each elastic queue has, by what its agent says, or its machine while none has
// come; of a queue without nodes that jobs wait for, the smallest machine of its classes. All machines are read for that alone.
func (w Handlers) cpusOf(ctx context.Context, c clusterView) (map[string]int, error) {
	cpus := map[string]int{}
	note := func(queue string, n int) {
		if n > 0 && (cpus[queue] == 0 || n < cpus[queue]) {
			cpus[queue] = n
		}
	}
	for _, n := range c.nodes {
		note(n.Queue, n.Seen.Facts.CPUs)
	}
	if slices.ContainsFunc(c.nodes, func(n node.Node) bool { return cpus[n.Queue] == 0 && n.MachineID != "" }) {
		err := w.DB.View(ctx, func(tx *core.Tx) error {
			under, err := machine.Under(ctx, tx, c.ID)
			for _, n := range c.nodes {
				if n.Seen.Facts.CPUs == 0 {
					note(n.Queue, under[n.MachineID].Facts.CPUs)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var unknown []spec.Queue
	for _, q := range c.Spec.Queues {
		if q.Elastic() && cpus[q.Name] == 0 && anyFor(c.nodes, q.Name) {
			unknown = append(unknown, q)
		}
	}
	if len(unknown) == 0 {
		return cpus, nil
	}
	return cpus, w.DB.View(ctx, func(tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		for _, q := range unknown {
			for _, name := range q.Classes() {
				class, _ := w.Admission.Catalogue.Find(name)
				for _, m := range machines {
					if class.Has(m.Machine) {
						note(q.Name, m.Facts.CPUs)
					}
				}
			}
		}
		return err
	})
}

// anyFor says whether a job waits for nodes of a queue.
func anyFor(nodes []node.Node, queue string) bool {
	return slices.ContainsFunc(nodes, func(n node.Node) bool {
		return slices.ContainsFunc(n.Seen.Waiting.Jobs, func(j protocol.WaitingJob) bool {
			return j.Grows && slices.Contains(j.Queues, queue)
		})
	})
}
