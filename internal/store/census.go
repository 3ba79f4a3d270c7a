package store

import (
	"context"
	"fmt"
	"time"
)

// Phases are those that a living entity of a kind can be in.
func Phases(k Kind) []Phase {
	switch k {
	case ClusterKind:
		return []Phase{Pending, Provisioning, Ready, Degraded, Pausing, Paused, Resuming, Deleting}
	case NodeKind:
		return []Phase{Pending, Attaching, Booting, Joining, Testing, Ready, Draining, Failed, Releasing}
	}
	return []Phase{Enrolled, Inspecting, Available, Reserved, InUse, Releasing, Maintenance, Quarantined}
}

// Census is how many there are of everything, in one snapshot.
type Census struct {
	Phases   map[Kind]map[Phase]int
	Oldest   map[Kind]map[Phase]time.Duration // how long the first of them has been there
	Queues   map[Kind]Queue
	Projects map[string]Holding
	Heard    Heard
	Unknown  int // machines that asked to boot and that nobody has enrolled
}

// Queue is the work of the engines with one kind.
type Queue struct {
	Due  int           // rows whose time has come and that nobody has taken yet
	Lag  time.Duration // how long the oldest of them has waited
	Held int           // rows that some controller works on
}

// Holding is what a project has.
type Holding struct{ Clusters, Nodes int }

// Heard is how ready nodes were heard of.
type Heard struct {
	Oldest time.Duration // since the last report of the node that has been silent the longest
	Silent int           // nodes that have not reported for longer than Silence
}

// Silence is how long a ready node, which reports every 5 s, may say nothing before it counts as silent.
const Silence = 20 * time.Second

// Census counts.
func (tx *Tx) Census(ctx context.Context) (Census, error) {
	c := Census{Phases: map[Kind]map[Phase]int{}, Oldest: map[Kind]map[Phase]time.Duration{}, Queues: map[Kind]Queue{}, Projects: map[string]Holding{}}
	for _, kind := range kinds {
		c.Phases[kind], c.Oldest[kind] = map[Phase]int{}, map[Phase]time.Duration{}
		var q Queue
		var lag int64
		err := tx.row(ctx, `SELECT
				COALESCE(SUM(CASE WHEN lease_until < now_ms() THEN 1 ELSE 0 END), 0),
				COALESCE(MAX(CASE WHEN lease_until < now_ms() THEN now_ms() - wake_at END), 0),
				COALESCE(SUM(CASE WHEN lease_until < now_ms() THEN 0 ELSE 1 END), 0)
			FROM `+string(kind)+` WHERE wake_at <= now_ms()`).Scan(&q.Due, &lag, &q.Held)
		if err != nil {
			return c, fmt.Errorf("count the work with %ss: %w", kind, err)
		}
		q.Lag = time.Duration(lag) * time.Millisecond
		c.Queues[kind] = q
	}
	if err := tx.countPhases(ctx, &c); err != nil {
		return c, err
	}
	var oldest int64
	err := tx.row(ctx, `SELECT COALESCE(MAX(now_ms() - o.seen_at), 0), COALESCE(SUM(CASE WHEN now_ms() - o.seen_at > $1 THEN 1 ELSE 0 END), 0)
		FROM node n JOIN observed o ON o.node_id = n.id WHERE n.phase = 'ready'`, Silence.Milliseconds()).Scan(&oldest, &c.Heard.Silent)
	if err != nil {
		return c, fmt.Errorf("count silent nodes: %w", err)
	}
	c.Heard.Oldest = time.Duration(oldest) * time.Millisecond
	if err := tx.row(ctx, `SELECT COUNT(*) FROM stranger`).Scan(&c.Unknown); err != nil {
		return c, fmt.Errorf("count unknown machines: %w", err)
	}
	return c, nil
}

// countPhases counts who is in which phase, and what each project has.
func (tx *Tx) countPhases(ctx context.Context, c *Census) error {
	type group struct {
		phase   Phase
		project string
		n       int
		ms      int64 // of the first in the phase
	}
	scan := func(r scanner) (g group, err error) { return g, r.Scan(&g.phase, &g.project, &g.n, &g.ms) }
	for kind, query := range map[Kind]string{
		MachineKind: `SELECT phase, '', COUNT(*), now_ms() - MIN(phase_at) FROM machine WHERE phase <> 'removed' GROUP BY phase`,
		ClusterKind: `SELECT phase, project, COUNT(*), now_ms() - MIN(phase_at) FROM cluster WHERE phase <> 'deleted' GROUP BY phase, project`,
		NodeKind: `SELECT n.phase, c.project, COUNT(*), now_ms() - MIN(n.phase_at) FROM node n JOIN cluster c ON c.id = n.cluster_id
			WHERE n.phase <> 'gone' GROUP BY n.phase, c.project`,
	} {
		groups, err := list(ctx, tx, scan, query)
		if err != nil {
			return fmt.Errorf("count %ss: %w", kind, err)
		}
		for _, g := range groups {
			c.Phases[kind][g.phase] += g.n
			c.Oldest[kind][g.phase] = max(c.Oldest[kind][g.phase], time.Duration(g.ms)*time.Millisecond)
			if kind == MachineKind {
				continue
			}
			held := c.Projects[g.project]
			if kind == ClusterKind {
				held.Clusters += g.n
			} else {
				held.Nodes += g.n
			}
			c.Projects[g.project] = held
		}
	}
	return nil
}
