package kinds_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// fakeAgents plays every agent of a walk, and Slurm: agents join, report and measure, jobs wait, run and end.
type fakeAgents struct {
	fixture *fixture

	mu       sync.Mutex
	says     map[string]speech    // node → what its agent says; well if it is not in it
	dull     map[string]bool      // machines whose nodes are slow
	jobs     map[string][]*job    // by cluster's name
	last     int                  // number of the last job
	reported map[string]time.Time // node → its last report
}

// job runs on whole nodes of the queue cpu.
type job struct {
	id, nodes int
	lasts     time.Duration
	ends      time.Time       // zero while it waits
	on        map[string]bool // nodes
}

func newFakeAgents(s *fixture) *fakeAgents {
	return &fakeAgents{fixture: s, says: map[string]speech{}, dull: map[string]bool{}, jobs: map[string][]*job{},
		reported: map[string]time.Time{}}
}

func (t *fakeAgents) say(node string, what speech) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.says[node] = what
}

func (t *fakeAgents) slow(machine string) { t.mu.Lock(); defer t.mu.Unlock(); t.dull[machine] = true }

func (t *fakeAgents) submit(cluster string, nodes int, lasts time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.jobs[cluster] = append(t.jobs[cluster], &job{id: t.last, nodes: nodes, lasts: lasts})
}

// recover ends every fault and every job.
func (t *fakeAgents) recover() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.says)
	clear(t.dull)
	clear(t.jobs)
}

func (t *fakeAgents) play(ctx context.Context) {
	for ctx.Err() == nil {
		if err := t.fixture.db.Update(ctx, func(tx *core.Tx) error { return t.scene(ctx, tx) }); err != nil && ctx.Err() == nil {
			t.fixture.Error(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (t *fakeAgents) scene(ctx context.Context, tx *core.Tx) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := host.Listen(ctx, tx, "", "walk"); err != nil {
		return err
	}
	clusters, err := cluster.List(ctx, tx, "")
	if err != nil {
		return err
	}
	for _, c := range clusters {
		nodes, err := node.Of(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		running := slices.DeleteFunc(slices.Clone(nodes), func(n node.Node) bool {
			seen, _ := t.fixture.substrate.Observe(ctx, substrate.Ref{Cluster: c.ID, Node: n.ID, Boot: n.Boot})
			return !seen.Running || seen.Boot != n.Boot || t.says[n.ID] == silent || n.Image == "sha256:broken"
		})
		t.schedule(c, running)
		for _, n := range running {
			if err := t.agent(ctx, tx, c, n); err != nil {
				return err
			}
		}
		if i := slices.IndexFunc(running, func(n node.Node) bool {
			return n.Role == protocol.Head && n.JoinedBoot == n.Boot
		}); i >= 0 {
			if err := t.head(ctx, tx, c, running[i], nodes, running); err != nil {
				return err
			}
		}
	}
	return nil
}

// agent is what one does for its own node.
func (t *fakeAgents) agent(ctx context.Context, tx *core.Tx, c cluster.Cluster, n node.Node) error {
	if n.Phase == node.Booting && n.JoinedBoot != n.Boot {
		if ok, err := node.UseToken(ctx, tx, n.ID, n.Boot, "key"); err != nil || !ok {
			return err
		}
		tx.Wake(node.Kind, n.ID)
	} else if n.JoinedBoot != n.Boot {
		return nil
	}
	report := protocol.Report{Boot: n.Boot, Revision: c.Revision, Facts: protocol.NodeFacts{CPUs: 2},
		Checks: []protocol.Check{{Name: "munge", OK: true}, {Name: "slurmd", OK: t.says[n.ID] != ill, Text: "does not run"}}}
	news := n.Seen.Boot != n.Boot
	if n.Test > 0 && n.Phase == node.Testing && n.Seen.Tested(n.Boot, n.Test) == nil {
		value := 11.3
		if t.dull[n.Machine] {
			value = 5.1
		}
		report.Test = &protocol.TestResult{Number: n.Test, Took: time.Millisecond,
			Measures: []protocol.Measure{{Quantity: protocol.MemoryBandwidth, Value: value}}}
		news = true
	}
	renewed := n.Renew && n.Phase == node.Draining
	if n.Role == protocol.Head && (renewed || c.Phase == cluster.Pausing && (n.Phase == core.Ready || n.Phase == node.Draining)) {
		if n.Desired == node.Absent || renewed {
			report.Checks = append(report.Checks, protocol.Check{Name: string(protocol.PauseHalt), OK: true, Text: "done"})
		}
		if _, err := runHook(ctx, tx, c.ID); err != nil {
			return err
		}
		news = news || n.Seen.Revision != c.Revision || len(n.Seen.Checks) != len(report.Checks)
		tx.Wake(cluster.Kind, c.ID)
	}
	if !news && time.Since(t.reported[n.ID]) < 300*time.Millisecond {
		return nil
	}
	if news {
		tx.Wake(node.Kind, n.ID)
	}
	t.reported[n.ID] = time.Now()
	return node.SaveReport(ctx, tx, n.ID, report)
}

// schedule is Slurm: jobs end, those whose nodes are gone wait again, and those begin for which there are nodes.
func (t *fakeAgents) schedule(c cluster.Cluster, running []node.Node) {
	free := map[string]bool{}
	alive := map[string]bool{}
	for _, n := range running {
		alive[n.ID] = true
		free[n.ID] = n.Queue == "cpu" && n.Phase == core.Ready && n.Desired == core.Present && !n.Renew && n.Seen.Scheduler != nil
	}
	t.jobs[c.Name] = slices.DeleteFunc(t.jobs[c.Name], func(j *job) bool { return !j.ends.IsZero() && time.Now().After(j.ends) })
	for _, j := range t.jobs[c.Name] {
		for id := range j.on {
			if !alive[id] {
				j.ends, j.on = time.Time{}, nil
				break
			}
		}
		for id := range j.on {
			delete(free, id)
		}
	}
	for _, j := range t.jobs[c.Name] {
		var on []string
		for id, ok := range free {
			if ok && len(on) < j.nodes {
				on = append(on, id)
			}
		}
		if !j.ends.IsZero() || len(on) < j.nodes {
			continue
		}
		j.on, j.ends = map[string]bool{}, time.Now().Add(j.lasts)
		for _, id := range on {
			j.on[id] = true
			delete(free, id)
		}
	}
}

// head tells of Slurm: its nodes, and the jobs that wait.
func (t *fakeAgents) head(ctx context.Context, tx *core.Tx, c cluster.Cluster, head node.Node, nodes, running []node.Node) error {
	busy := map[string]int{}
	var waiting protocol.Waiting
	for _, j := range t.jobs[c.Name] {
		for id := range j.on {
			busy[id]++
		}
		if j.ends.IsZero() {
			waiting.Jobs = append(waiting.Jobs, protocol.WaitingJob{ID: j.id, Tasks: 1, Queues: []string{"cpu"},
				Request: protocol.Request{Nodes: j.nodes, CPUs: j.nodes, Whole: true}, Reason: "Resources", Grows: true})
			waiting.Total++
		}
	}
	for _, n := range nodes {
		if n.Role == protocol.Head {
			continue
		}
		var row *protocol.NodeState
		there := slices.ContainsFunc(running, func(r node.Node) bool { return r.ID == n.ID && n.JoinedBoot == n.Boot })
		if there && n.Phase != core.Releasing && n.Phase != core.Failed {
			row = &protocol.NodeState{Name: n.Name, Responding: true, Jobs: busy[n.ID]}
			row.State = protocol.StateOf(n.Desired == node.Absent || n.Renew, row.Jobs > 0)
		}
		if (row == nil) != (n.Seen.Scheduler == nil) || row != nil && *row != *n.Seen.Scheduler {
			tx.Wake(node.Kind, n.ID)
			if err := node.SaveScheduler(ctx, tx, n.ID, row); err != nil {
				return err
			}
		}
	}
	if len(waiting.Jobs) == len(head.Seen.Waiting.Jobs) && waiting.Total == head.Seen.Waiting.Total {
		return nil
	}
	tx.Wake(cluster.Kind, c.ID)
	return node.SaveWaiting(ctx, tx, head.ID, waiting)
}
