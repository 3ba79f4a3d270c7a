package api

import (
	"context"
	"fmt"
	"slices"

	"muster/internal/access"
	"muster/internal/bench/recipe"
	"muster/internal/core"
	door "muster/internal/door/external"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/external"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// benchPlace is a cluster of Muster's, or a registered one, as a benchmark runs there.
type benchPlace struct {
	project, id, name string
	queue             string
	on                recipe.Nodes
	admits            func(*task.Work) error // says why the caller may not run that there now
}

// benchPlace finds a cluster, and the nodes that a benchmark runs on there: in this queue, so many; "" and 0: as usual there.
func (a *API) benchPlace(ctx context.Context, tx *core.Tx, ref, queue string, nodes int) (p benchPlace, err error) {
	c, err := a.find(ctx, tx, ref)
	if isNotFound(err) {
		if at, by, other := chooseExternal(ctx, tx, ref); other == nil {
			return onExternal(ctx, at, by, queue, nodes)
		} else if !isNotFound(other) {
			return p, other
		}
	}
	if err != nil {
		return p, err
	}
	p = benchPlace{project: c.Project, id: c.ID, name: c.Name,
		admits: func(w *task.Work) error { return a.runnable(ctx, tx, c, w) }}
	p.queue, p.on, err = a.shapeOf(ctx, tx, c, queue, nodes)
	return p, err
}

// chooseExternal finds a registered cluster, and how one of the caller's projects may use it.
func chooseExternal(ctx context.Context, tx *core.Tx, ref string) (external.Cluster, external.Project, error) {
	type entrance struct {
		external.Cluster
		by external.Project
	}
	all, err := external.List(ctx, tx)
	if err != nil {
		return external.Cluster{}, external.Project{}, err
	}
	_, name := access.Named(ref)
	var named []entrance
	for _, c := range all {
		for _, by := range c.Projects {
			if c.Name == name {
				named = append(named, entrance{c, by})
			}
		}
	}
	e, err := choose(ctx, "cluster", ref, named, func(e entrance) (string, string) { return e.by.Project, e.Name })
	if err == nil {
		err = permit(ctx, e.by.Project, "cluster "+ref)
	}
	return e.Cluster, e.by, err
}

// onExternal is benchPlace for a registered cluster. Its queues and nodes are those that were seen last.
func onExternal(ctx context.Context, c external.Cluster, by external.Project, queue string, nodes int) (p benchPlace, err error) {
	seen := "`muster clusters show " + c.Name + "` shows what was seen"
	if err := door.TakesJobs(c); err != nil {
		return p, conflict(err.Error(), seen)
	}
	i := slices.IndexFunc(c.Queues, func(q external.Queue) bool {
		open := len(by.Queues) == 0 || slices.Contains(by.Queues, q.Name)
		return open && (q.Name == queue || queue == "" && q.Up)
	})
	if i < 0 {
		return p, invalidBenchmark("external cluster %s has no queue %q that is open to project %s", c.Name, queue, by.Project)
	}
	q := c.Queues[i]
	switch {
	case nodes > q.Nodes:
		return p, invalidBenchmark("queue %s of external cluster %s has %d nodes", q.Name, c.Name, q.Nodes)
	case q.Cores == 0:
		text := fmt.Sprintf("it is not known how large the nodes of queue %s of external cluster %s are", q.Name, c.Name)
		return p, conflict(text, seen)
	}
	admits := func(*task.Work) error {
		switch {
		case c.Account(by, identityOf(ctx)) == "":
			text := fmt.Sprintf("%s has no account at external cluster %s", identityOf(ctx), c.Name)
			return forbidden(text, "operators say who has: `muster clusters set`")
		case nodes == 0:
			return invalidBenchmark("queue %s of external cluster %s has %d nodes: say on how many it is to run",
				q.Name, c.Name, q.Nodes)
		}
		return nil
	}
	return benchPlace{by.Project, bench.AtExternal(c.Name, by.Project), c.Name, q.Name,
		recipe.Nodes{Nodes: max(nodes, 1), Cores: q.Cores, Memory: int64(q.MemoryMiB) << 20}, admits}, nil
}

// shapeOf is the queue that a benchmark runs in, and what nodes it runs on there: as the scheduler counts them.
func (a *API) shapeOf(ctx context.Context, tx *core.Tx, c cluster.Cluster, queue string, want int) (string, recipe.Nodes, error) {
	on := recipe.Nodes{}
	if by := a.Admission.Schedulers.Of(c.Spec.Scheduler()); !by.Caps.Jobs {
		return "", on, invalidBenchmark("cluster %s has %s: benchmarks are jobs", c.Name, by.Title)
	}
	i := slices.IndexFunc(c.Spec.Queues, func(q spec.Queue) bool { return queue == "" || q.Name == queue })
	if i < 0 {
		return "", on, invalidBenchmark("cluster %s has no queue %q", c.Name, queue)
	}
	q := c.Spec.Queues[i]
	if want > *q.Max {
		return "", on, invalidBenchmark("queue %s of cluster %s has %d nodes at most", q.Name, c.Name, *q.Max)
	}
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return "", on, err
	}
	var size protocol.Size
	for _, n := range nodes {
		if n.Role == protocol.Compute && n.Queue == q.Name && n.Seen.Scheduler.Usable() {
			on.Nodes++
			size = size.Least(n.Seen.Scheduler.Size)
		}
	}
	if known := c.Learned[q.Name]; size.CPUs == 0 && known.Seen {
		size, on.Nodes = known.Size, max(*q.Min, 1)
	}
	if size.CPUs == 0 {
		text := fmt.Sprintf("queue %s of cluster %s has no nodes yet that the scheduler knows", q.Name, c.Name)
		return "", on, conflict(text, "`muster describe "+c.Name+"` shows its nodes")
	}
	if want > 0 {
		on.Nodes = want
	}
	on.Cores, on.Memory = size.CPUs/max(size.Threads, 1), int64(size.Memory)<<20
	return q.Name, on, nil
}
