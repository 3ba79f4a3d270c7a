package elastic

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/protocol"
)

// model is a queue with a scheduler that starts jobs on whole nodes, except those that it never starts, for reasons of its own.
type model struct {
	q     Queue
	now   time.Time
	jobs  []protocol.WaitingJob
	stuck map[int]bool
	lasts map[int]time.Duration
	nodes []*modelNode
	size  protocol.Size // that its nodes turn out to have
	grown int           // how often the queue grew
}

type modelNode struct {
	ready, idleSince time.Time
	until            time.Time // its job ends; zero: it has none
}

const tick = 10 * time.Second

// step is what happens in a tick.
func (m *model) step() {
	m.now = m.now.Add(tick)
	for _, n := range m.nodes {
		if !n.until.IsZero() && !m.now.Before(n.until) {
			n.until, n.idleSince = time.Time{}, m.now
		}
	}
	m.q.Nodes = nil
	for _, n := range m.nodes {
		node := Node{Busy: !n.until.IsZero()}
		if !node.Busy && m.now.After(n.ready) {
			node.Idle = m.now.Sub(n.idleSince)
			m.q.Size = m.size
		}
		m.q.Nodes = append(m.q.Nodes, node)
	}
	d := Decide([]Queue{m.q}, m.jobs, m.now)[m.q.Name]
	if d.Target > m.q.Target {
		m.grown++
	}
	m.q.Target, m.q.Doubts = d.Target, d.Doubts
	for len(m.nodes) > d.Target {
		i := slices.IndexFunc(m.nodes, func(n *modelNode) bool { return n.until.IsZero() })
		if i < 0 {
			break
		}
		m.nodes = slices.Delete(m.nodes, i, i+1)
	}
	for len(m.nodes) < d.Target {
		m.nodes = append(m.nodes, &modelNode{ready: m.now.Add(3 * tick), idleSince: m.now.Add(3 * tick)})
	}
	m.jobs = slices.DeleteFunc(m.jobs, m.starts)
}

func (m *model) starts(j protocol.WaitingJob) bool {
	needs, why := Needs(m.q, j.Request)
	var free []*modelNode
	for _, n := range m.nodes {
		if n.until.IsZero() && m.now.After(n.ready) {
			free = append(free, n)
		}
	}
	if why != "" || m.stuck[j.ID] || len(free) < needs {
		return false
	}
	for _, n := range free[:needs] {
		n.until = m.now.Add(m.lasts[j.ID])
	}
	return true
}

// TestGrowthAndShrinkageEnd: whatever jobs wait, those included that never start and those that fit what machines were said to
// have and not what nodes have, every job that can run runs, and in the end there are min nodes and nothing changes any more.
func TestGrowthAndShrinkageEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := model{q: someQueue(t), now: noon, jobs: someJobs(t), stuck: map[int]bool{}, lasts: map[int]time.Duration{}}
		m.q.Target, m.q.Nodes = m.q.Min, nil
		m.size = protocol.Size{CPUs: rapid.IntRange(1, 4).Draw(t, "real cpus"),
			Memory: rapid.IntRange(1, 4).Draw(t, "real memory")}
		able := 0
		for i := range m.jobs {
			id := m.jobs[i].ID
			m.jobs[i].Tasks, m.jobs[i].AtOnce = 1, 0
			m.jobs[i].Whole = true
			m.stuck[id] = rapid.Bool().Draw(t, "stuck")
			m.lasts[id] = time.Duration(rapid.IntRange(1, 60).Draw(t, "lasts")) * tick
			real := m.q
			real.Size = m.size
			if Why(m.q, m.jobs[i]) == "" && Why(real, m.jobs[i]) == "" && !m.stuck[id] {
				able++
			}
		}
		all := len(m.jobs)
		for range 6 * 200 {
			m.step()
		}
		if ran := all - len(m.jobs); ran < able {
			t.Fatalf("%d jobs ran of %d that can", ran, able)
		}
		if m.grown > 2*all+1 {
			t.Fatalf("it grew %d times for %d jobs", m.grown, all)
		}
		if len(m.nodes) != m.q.Min {
			t.Fatalf("%d nodes are left; min is %d", len(m.nodes), m.q.Min)
		}
		before := m.grown
		for range 6 * 60 {
			m.step()
		}
		if m.grown != before || len(m.nodes) != m.q.Min {
			t.Fatalf("it grew %d times more", m.grown-before)
		}
	})
}
