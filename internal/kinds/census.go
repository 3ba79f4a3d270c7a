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
	Newest   map[core.Kind]map[core.Phase]time.Time     // when the last of them came there
	Queues   map[core.Kind]Queue
	Projects map[string]ProjectTotals
	Jobs     Jobs
	Heard    Heard
	Unknown  Told // machines that asked to boot and are not enrolled
	Worse    Told // quantities of benchmarks that are worse than they were, and were not accepted
}

// Told is how many there are of what a person should look at, and when the newest of them came.
type Told struct {
	N      int
	Newest time.Time
}

// Queue is the work of the engines with one kind.
type Queue struct {
	Due   int           // rows whose time has come and that no controller has taken yet
	Lag   time.Duration // how long the oldest of them has waited
	Since time.Time     // when its time came
	Held  int           // rows that some controller works on
}

// Allocation is what a project has.
type ProjectTotals struct{ Clusters, Nodes int }

// Jobs are those that have not ended, as the heads of clusters have told.
type Jobs struct {
	Running int `json:"running,omitempty"`
	Pending int `json:"pending,omitempty"`
}

// Heard is how ready nodes were heard of.
type Heard struct {
	Oldest time.Duration // since the last report of the node that has been silent the longest
	Silent Told          // nodes that have not reported for longer than Silence
}

// Silence is how long a ready node, which reports every 5 s, may say nothing before it counts as silent.
const Silence = 20 * time.Second

// Count counts.
func Count(ctx context.Context, tx *core.Tx) (Census, error) {
	c := Census{Phases: map[core.Kind]map[core.Phase]int{}, Oldest: map[core.Kind]map[core.Phase]time.Duration{},
		Newest: map[core.Kind]map[core.Phase]time.Time{}, Queues: map[core.Kind]Queue{}, Projects: map[string]ProjectTotals{}}
	for _, d := range tx.Living() {
		if err := countKind(ctx, tx, &c, d); err != nil {
			return c, fmt.Errorf("count %ss: %w", d.Kind, err)
		}
	}
	if err := countProjects(ctx, tx, &c); err != nil {
		return c, fmt.Errorf("count what projects have: %w", err)
	}
	err := tx.Row(ctx, `SELECT COALESCE(MAX(now_ms() - o.seen_at), 0), COALESCE(SUM(CASE WHEN now_ms() - o.seen_at > $1 THEN 1
		ELSE 0 END), 0), COALESCE(MAX(CASE WHEN now_ms() - o.seen_at > $1 THEN o.seen_at + $1 END), 0)
		FROM node n JOIN observed o ON o.node_id = n.id
		WHERE n.phase = 'ready'`, Silence.Milliseconds()).
		Scan(core.Span(&c.Heard.Oldest, time.Millisecond), &c.Heard.Silent.N, core.Time(&c.Heard.Silent.Newest))
	if err != nil {
		return c, fmt.Errorf("count silent nodes: %w", err)
	}
	if err := tx.Row(ctx, `SELECT COUNT(*), COALESCE(MAX(first_seen), 0) FROM unknown_machine`).
		Scan(&c.Unknown.N, core.Time(&c.Unknown.Newest)); err != nil {
		return c, fmt.Errorf("count unknown machines: %w", err)
	}
	if err := tx.Row(ctx, `SELECT CAST(COALESCE(SUM(running), 0) AS BIGINT),
		CAST(COALESCE(SUM(pending), 0) AS BIGINT) FROM cluster_jobs`).
		Scan(&c.Jobs.Running, &c.Jobs.Pending); err != nil {
		return c, fmt.Errorf("count jobs: %w", err)
	}
	worse, err := bench.Standing(ctx, tx, "")
	c.Worse.N = len(worse)
	for _, w := range worse {
		if w.ToldAt.After(c.Worse.Newest) {
			c.Worse.Newest = w.ToldAt
		}
	}
	return c, err
}

// countKind counts who is in which phase, and the work that is due.
func countKind(ctx context.Context, tx *core.Tx, c *Census, d core.Definition) error {
	var q Queue
	err := tx.Row(ctx, `SELECT
			COALESCE(SUM(CASE WHEN lease_until < now_ms() THEN 1 ELSE 0 END), 0),
			COALESCE(MAX(CASE WHEN lease_until < now_ms() THEN now_ms() - wake_at END), 0),
			COALESCE(MIN(CASE WHEN lease_until < now_ms() THEN wake_at END), 0),
			COALESCE(SUM(CASE WHEN lease_until < now_ms() THEN 0 ELSE 1 END), 0)
		FROM `+string(d.Kind)+` WHERE wake_at <= now_ms()`).
		Scan(&q.Due, core.Span(&q.Lag, time.Millisecond), core.Time(&q.Since), &q.Held)
	if err != nil {
		return err
	}
	c.Queues[d.Kind] = q
	type group struct {
		phase  core.Phase
		n      int
		oldest time.Duration // since the first came into the phase
		newest time.Time     // when the last did
	}
	scan := core.Fields(func(g *group) []any {
		return []any{&g.phase, &g.n, core.Span(&g.oldest, time.Millisecond), core.Time(&g.newest)}
	})
	groups, err := core.List(ctx, tx, scan, `SELECT phase, COUNT(*), now_ms() - MIN(phase_at), MAX(phase_at) FROM `+
		string(d.Kind)+` WHERE phase <> $1 GROUP BY phase`, string(d.End))
	c.Phases[d.Kind], c.Oldest[d.Kind] = map[core.Phase]int{}, map[core.Phase]time.Duration{}
	c.Newest[d.Kind] = map[core.Phase]time.Time{}
	for _, g := range groups {
		c.Phases[d.Kind][g.phase], c.Oldest[d.Kind][g.phase], c.Newest[d.Kind][g.phase] = g.n, g.oldest, g.newest
	}
	return err
}

// countProjects counts what each project has.
func countProjects(ctx context.Context, tx *core.Tx, c *Census) error {
	type project struct {
		name string
		ProjectTotals
	}
	scan := core.Fields(func(p *project) []any { return []any{&p.name, &p.Clusters, &p.Nodes} })
	all, err := core.List(ctx, tx, scan, `SELECT c.project, COUNT(DISTINCT c.id), COUNT(n.id)
		FROM cluster c LEFT JOIN node n ON n.cluster_id = c.id AND n.phase <> 'gone'
		WHERE c.phase <> 'deleted' GROUP BY c.project`)
	for _, p := range all {
		c.Projects[p.name] = p.ProjectTotals
	}
	return err
}
