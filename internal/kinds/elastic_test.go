package kinds_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// elastic creates a cluster whose queue cpu grows from 0 to most, and returns how its head is made to tell of waiting jobs. It
// tells again and again, as heads do.
func (s *fixture) elastic(name string, most int) (id string, waits func(...protocol.WaitingJob)) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		plan, err := s.admission.Create(ctx, tx,
			spec.Cluster{Name: name, Queues: []spec.Queue{{Name: "cpu", Max: &most, IdleAfter: "1s"}}})
		if err != nil {
			return err
		}
		c, err := s.admission.CarryOut(ctx, tx, plan, "admin", 0)
		id = c.ID
		return err
	})
	var waiting atomic.Pointer[protocol.Waiting]
	waiting.Store(&protocol.Waiting{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := s.db.Update(ctx, func(tx *core.Tx) error { return tellWaiting(ctx, tx, id, *waiting.Load()) })
			if err != nil && ctx.Err() == nil {
				s.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	s.Cleanup(func() { cancel(); <-done })
	return id, func(jobs ...protocol.WaitingJob) {
		waiting.Store(&protocol.Waiting{Jobs: jobs, Total: len(jobs)})
	}
}

func tellWaiting(ctx context.Context, tx *core.Tx, id string, w protocol.Waiting) error {
	nodes, err := node.Of(ctx, tx, id)
	if err != nil || len(nodes) == 0 || nodes[0].Phase != core.Ready {
		return err
	}
	if err := node.SaveReport(ctx, tx, nodes[0].ID,
		protocol.Report{Boot: nodes[0].Boot, Checks: []protocol.Check{{Name: "munge", OK: true}}}); err != nil {
		return err
	}
	if err := node.SaveWaiting(ctx, tx, nodes[0].ID, w); err != nil {
		return err
	}
	tx.Wake(cluster.Kind, id)
	return nil
}

// wantsNodes is a job that waits for nodes of queue cpu.
func wantsNodes(id, n int) protocol.WaitingJob {
	return protocol.WaitingJob{ID: id, Tasks: 1, Queues: []string{"cpu"},
		Request: protocol.Request{Nodes: n, CPUs: n, NodeCPUs: 1, Whole: true}, Reason: "PartitionConfig", Grows: true}
}

func sized(n int) func(cluster.Cluster, []node.Node) bool {
	return func(c cluster.Cluster, nodes []node.Node) bool {
		ready := 0
		for _, n := range nodes {
			if n.Phase == core.Ready && n.Desired == core.Present {
				ready++
			}
		}
		return c.Phase == core.Ready && ready == 1+n && len(nodes) == 1+n
	}
}

func TestAQueueFollowsItsJobs(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 5)
		var busy atomic.Bool
		s.jobs = func(n node.Node) int {
			if busy.Load() && n.Name == "cpu1" {
				return 1
			}
			return 0
		}
		stop := s.run(2)
		s.untilFree(5)
		id, waits := s.elastic("grow", 4)
		s.until(id, "ready with its head alone", sized(0))
		waits(wantsNodes(7, 3), wantsNodes(8, 9))
		s.until(id, "three nodes for the first job, and none for one that is too large", sized(3))
		busy.Store(true)
		s.until(id, "known to have a job", func(_ cluster.Cluster, nodes []node.Node) bool {
			return slices.ContainsFunc(nodes, func(n node.Node) bool {
				return n.Seen.Scheduler != nil && n.Seen.Scheduler.Jobs == 1
			})
		})
		waits()
		stop() // a controller dies, another goes on
		s.run(1)
		s.until(id, "only the node with a job stays", sized(1))
		waits(wantsNodes(9, 2))
		s.until(id, "two more come", sized(3))
		waits()
		busy.Store(false)
		s.until(id, "its head is alone again", sized(0))
		told := strings.Join(append(s.told(id, "queue.waits"),
			append(s.told(id, "queue.grows"), s.told(id, "queue.shrinks")...)...), "\n")
		for _, want := range []string{"job 7 waits for 3 nodes of queue cpu", "queue cpu grows from 0 to 3 nodes",
			"job 9 waits for 2 nodes", "had no job for 1s"} {
			if !strings.Contains(told, want) {
				t.Errorf("no %q in\n%s", want, told)
			}
		}
	})
}

func TestAQueueTakesWhatThereIs(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 3)
		s.jobs = func(node.Node) int { return 1 }
		s.run(1)
		s.untilFree(3)
		id, waits := s.elastic("grow", 4)
		s.until(id, "ready with its head alone", sized(0))
		waits(wantsNodes(7, 4))
		s.until(id, "two nodes, and told why not more", func(c cluster.Cluster, nodes []node.Node) bool {
			return sized(2)(c, nodes) && strings.Contains(c.Short, "class local: 2 more asked, 0 free")
		})
	})
}

// TestAQueueKnowsWhatItsNodesGaveWhenTheyAreGone: it would grow again and again for a job that fits what machines are said to
// have and not what nodes leave for jobs.
func TestAQueueKnowsWhatItsNodesGaveWhenTheyAreGone(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 3)
		s.run(1)
		s.untilFree(3)
		id, waits := s.elastic("grow", 2)
		s.until(id, "ready with its head alone", sized(0))
		waits(wantsNodes(7, 1))
		s.until(id, "one node", sized(1))
		waits()
		s.until(id, "its head is alone again, and it knows its nodes", func(c cluster.Cluster, nodes []node.Node) bool {
			known := c.Learned["cpu"]
			return sized(0)(c, nodes) && known.Seen && known.Size == protocol.Size{CPUs: 2, Memory: 1000}
		})
		large := wantsNodes(8, 1)
		large.NodeMemory = 1001
		waits(large, wantsNodes(9, 1))
		s.until(id, "one node", sized(1))
		if told := s.told(id, "queue.waits"); !slices.Equal(told, []string{"job 7 waits for 1 node of queue cpu",
			"job 9 waits for 1 node of queue cpu"}) {
			t.Errorf("%q", told)
		}
	})
}
