package kinds

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/bench"
)

// Census is how many there are of everything, in one snapshot.
type Census struct {
	Phases   map[core.Kind]map[core.Phase]int
	Oldest   map[core.Kind]map[core.Phase]time.Duration // how long the first of them has been there
	Queues   map[core.Kind]Queue
	Projects map[string]ProjectTotals
	Heard    Heard
	Unknown  int // machines that asked to boot and that nobody has enrolled
	Worse    int // quantities of benchmarks that are worse than they were, which nobody has accepted
}

// Queue is the work of the engines with one kind.
type Queue struct {
	Due  int           // rows whose time has come and that nobody has taken yet
	Lag  time.Duration // how long the oldest of them has waited
	Held int           // rows that some controller works on
}

// Allocation is what a project has.
type ProjectTotals struct{ Clusters, Nodes int }

// Heard is how ready nodes were heard of.
type Heard struct {
	Oldest time.Duration // since the last report of the node that has been silent the longest
	Silent int           // nodes that have not reported for longer than Silence
}

// Silence is how long a ready node, which reports every 5 s, may say nothing before it counts as silent.
const Silence = 20 * time.Second

// Count counts.
func Count(ctx context.Context, tx *core.Tx) (Census, error) {
	c := Census{Phases: map[core.Kind]map[core.Phase]int{}, Oldest: map[core.Kind]map[core.Phase]time.Duration{},
		Queues: map[core.Kind]Queue{}, Projects: map[string]ProjectTotals{}}
	for _, d := range tx.Living() {
		if err := countKind(ctx, tx, &c, d); err != nil {
			return c, fmt.Errorf("count %ss: %w", d.Kind, err)
		}
	}
	if err := countProjects(ctx, tx, &c); err != nil {
		return c, fmt.Errorf("count what projects have: %w", err)
	}
	var oldest int64
	err := tx.Row(ctx, `SELECT COALESCE(MAX(now_ms() - o.seen_at), 0), COALESCE(SUM(CASE WHEN now_ms() - o.seen_at > $1 THEN 1
		ELSE 0 END), 0)
		FROM node n JOIN observed o ON o.node_id = n.id
		WHERE n.phase = 'ready'`, Silence.Milliseconds()).Scan(&oldest, &c.Heard.Silent)
	if err != nil {
		return c, fmt.Errorf("count silent nodes: %w", err)
	}
	c.Heard.Oldest = time.Duration(oldest) * time.Millisecond
	if err := tx.Row(ctx, `SELECT COUNT(*) FROM unknown_machine`).Scan(&c.Unknown); err != nil {
		return c, fmt.Errorf("count unknown machines: %w", err)
	}
	worse, err := bench.Standing(ctx, tx, "")
	c.Worse = len(worse)
	return c, err
}

// countKind counts who is in which phase, and the work that is due.
func countKind(ctx context.Context, tx *core.Tx, c *Census, d core.Definition) error {
	var q Queue
	var lag int64
	err := tx.Row(ctx, `SELECT
			COALESCE(SUM(CASE WHEN lease_until < now_ms() THEN 1 ELSE 0 END), 0),
			COALESCE(MAX(CASE WHEN lease_until < now_ms() THEN now_ms() - wake_at END), 0),
			COALESCE(SUM(CASE WHEN lease_until < now_ms() THEN 0 ELSE 1 END), 0)
		FROM `+string(d.Kind)+` WHERE wake_at <= now_ms()`).Scan(&q.Due, &lag, &q.Held)
	if err != nil {
		return err
	}
	q.Lag = time.Duration(lag) * time.Millisecond
	c.Queues[d.Kind] = q
	type group struct {
		phase core.Phase
		n     int
		ms    int64 // of the first in the phase
	}
	scan := func(r core.Scanner) (g group, err error) { return g, r.Scan(&g.phase, &g.n, &g.ms) }
	groups, err := core.List(ctx, tx, scan, `SELECT phase, COUNT(*), now_ms() - MIN(phase_at) FROM `+string(d.Kind)+
		` WHERE phase <> $1 GROUP BY phase`, string(d.End))
	c.Phases[d.Kind], c.Oldest[d.Kind] = map[core.Phase]int{}, map[core.Phase]time.Duration{}
	for _, g := range groups {
		c.Phases[d.Kind][g.phase], c.Oldest[d.Kind][g.phase] = g.n, time.Duration(g.ms)*time.Millisecond
	}
	return err
}

// countProjects counts what each project has.
func countProjects(ctx context.Context, tx *core.Tx, c *Census) error {
	type project struct {
		name string
		ProjectTotals
	}
	scan := func(r core.Scanner) (p project, err error) { return p, r.Scan(&p.name, &p.Clusters, &p.Nodes) }
	all, err := core.List(ctx, tx, scan, `SELECT c.project, COUNT(DISTINCT c.id), COUNT(n.id)
		FROM cluster c LEFT JOIN node n ON n.cluster_id = c.id AND n.phase <> 'gone'
		WHERE c.phase <> 'deleted' GROUP BY c.project`)
	for _, p := range all {
		c.Projects[p.name] = p.ProjectTotals
	}
	return err
}
