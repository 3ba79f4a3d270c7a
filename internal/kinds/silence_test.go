package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// speech is what a node's agent says in a moment of a test.
type speech int

const (
	well speech = iota
	ill
	silent
)

// heart makes the agents of nodes that have joined speak every few milliseconds, and a controller listen to them.
type heart struct {
	*fixture
	says  func(node.Node) speech
	deaf  atomic.Bool
	busy  atomic.Bool // jobs run on all nodes
	needs atomic.Bool // its head, for a compute node to be well
	ceded chan struct{}
}

// beat starts the heart; change changes what the agents say.
func (h *heart) beat() {
	s := h.fixture
	h.ceded <- struct{}{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			<-h.ceded
			err := s.db.Update(ctx, func(tx *core.Tx) error { return h.once(ctx, tx) })
			h.ceded <- struct{}{}
			if err != nil && ctx.Err() == nil {
				s.Error(err)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	s.Cleanup(func() { cancel(); <-done })
}

// change makes the agents say something else from now on.
func (h *heart) change(says func(node.Node) speech) {
	<-h.ceded
	h.update(h.once)
	h.says = says
	h.ceded <- struct{}{}
}

// once is one beat. Its nodes speak at the same moment, also on a host that is so busy that it takes long.
func (h *heart) once(ctx context.Context, tx *core.Tx) error {
	if h.deaf.Load() {
		return nil // no controller hears reports
	}
	if err := host.Listen(ctx, tx, "", "test"); err != nil {
		return err
	}
	nodes, err := node.List(ctx, tx)
	served := map[string]bool{} // by cluster
	spoke := []string{}
	for _, n := range nodes {
		served[n.Cluster] = served[n.Cluster] || n.Role == protocol.Head && n.Phase == core.Ready && h.says(n) == well
	}
	for _, n := range nodes {
		if n.JoinedBoot != n.Boot || h.says(n) == silent {
			continue
		}
		check := protocol.Check{Name: "slurmd", OK: h.says(n) == well &&
			(!h.needs.Load() || n.Role == protocol.Head || served[n.Cluster]), Text: "does not run"}
		if err := node.SaveReport(ctx, tx, n.ID, protocol.Report{Boot: n.Boot, Checks: []protocol.Check{check}}); err != nil {
			return err
		}
		spoke = append(spoke, n.ID)
	}
	now, also := tx.Now(ctx)
	var which core.Where
	which.Among("node_id", spoke)
	_, set := tx.Exec(ctx, fmt.Sprintf(`UPDATE observed SET seen_at = %[1]d,
		well_at = CASE WHEN well_since > 0 THEN %[1]d ELSE well_at END`, now.UnixMilli())+which.Text, which.Args...)
	return errors.Join(err, also, set)
}

// limit of silence in these tests.
const hush = time.Second

func newHeart(t *testing.T, url string, machines int, limits ...func(*substrate.Deadlines)) *heart {
	s := newFixture(t, url, machines)
	s.limit(func(l *substrate.Deadlines) { l.Silence = hush })
	for _, change := range limits {
		s.limit(change)
	}
	h := &heart{fixture: s, says: func(node.Node) speech { return well }, ceded: make(chan struct{}, 1)}
	s.jobs = func(node.Node) int {
		if h.busy.Load() {
			return 1
		}
		return 0
	}
	s.run(1)
	h.beat()
	s.untilFree(machines)
	return h
}

// nodesOf lists a cluster's nodes by name.
func (s *fixture) nodesOf(id string) map[string]node.Node {
	s.Helper()
	named := map[string]node.Node{}
	s.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, id)
		for _, n := range nodes {
			named[n.Name] = n
		}
		return err
	})
	return named
}

// untilReplaced waits until others are ready in the names of the nodes given, and no other node was replaced.
func (s *fixture) untilReplaced(id string, before map[string]node.Node, lost ...string) {
	s.Helper()
	s.until(id, "whole again", func(c cluster.Cluster, nodes []node.Node) bool {
		changed := 0
		for _, n := range nodes {
			if n.ID != before[n.Name].ID {
				changed++
			}
		}
		return c.Phase == core.Ready && len(nodes) == len(before) && changed >= len(lost)
	})
	after := s.nodesOf(id)
	for name, n := range before {
		want := false
		for _, l := range lost {
			want = want || l == name
		}
		if (after[name].ID != n.ID) != want {
			s.Errorf("%s was replaced: %t", name, after[name].ID != n.ID)
		}
	}
}

// failures are the reasons of failed nodes.
func (s *fixture) failures() (reasons []string) {
	s.Helper()
	s.view(func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 10000})
		for _, e := range events {
			if e.Node != "" && e.Phase == core.Failed {
				reasons = append(reasons, e.Node+": "+e.Text)
			}
		}
		return err
	})
	return reasons
}

func (s *fixture) alarms() (alarms []host.Alarm) {
	s.Helper()
	s.view(func(ctx context.Context, tx *core.Tx) (err error) {
		alarms, err = host.Alarms(ctx, tx)
		return err
	})
	return alarms
}

func TestANodeThatIsSilentOrIllForTooLongIsReplaced(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		h := newHeart(t, url, 8)
		id := h.create("hello", 4)
		h.untilReady(id, 4)
		for _, fault := range []struct {
			node, reason string
			speech       speech
		}{
			{"n2", `its agent was silent for \d+ s`, silent},
			{"n3", `not well for \d+ s: slurmd: does not run`, ill},
			{"head", `its agent was silent for \d+ s`, silent},
		} {
			before := h.nodesOf(id)
			victim := before[fault.node].ID
			h.change(func(n node.Node) speech {
				if n.ID == victim {
					return fault.speech
				}
				return well
			})
			h.untilReplaced(id, before, fault.node)
			// How long, a busy machine decides.
			want := regexp.MustCompile("^" + fault.node + ": " + fault.reason)
			if all := h.failures(); !want.MatchString(all[len(all)-1]) {
				t.Errorf("%s: %q", fault.node, all)
			}
		}
		if alarms := h.alarms(); len(alarms) > 0 {
			t.Error(alarms)
		}
		h.remove(id)
		h.untilClean(id)
	})
}

// Without their head all nodes complain, and go on to until they have found the new one.
func TestAHeadThatIsLostIsReplacedAloneThoughNoNodeIsWellWithoutIt(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		h := newHeart(t, url, 6)
		id := h.create("hello", 3)
		h.untilReady(id, 3)
		h.needs.Store(true)
		before := h.nodesOf(id)
		h.change(func(n node.Node) speech {
			if n.ID == before["head"].ID {
				return silent
			}
			return well
		})
		h.untilReplaced(id, before, "head")
		time.Sleep(2 * hush)
		h.untilReplaced(id, before, "head")
		if alarms := h.alarms(); len(alarms) > 0 {
			t.Error(alarms)
		}
	})
}

func TestADrainingNodeThatFallsSilentDoesNotHang(t *testing.T) {
	t.Parallel()
	h := newHeart(t, t.TempDir()+"/db", 5)
	id := h.create("hello", 3)
	h.untilReady(id, 3)
	h.busy.Store(true)
	h.until(id, "at work", func(_ cluster.Cluster, nodes []node.Node) bool { // one that seems idle would go first
		return !slices.ContainsFunc(nodes[1:], func(n node.Node) bool {
			return n.Seen.Scheduler == nil || n.Seen.Scheduler.Jobs == 0
		})
	})
	h.scale(id, 2)
	h.until(id, "draining", func(_ cluster.Cluster, nodes []node.Node) bool {
		return len(nodes) == 4 && nodes[3].Phase == node.Draining
	})
	h.change(func(n node.Node) speech {
		if n.Name == "n3" {
			return silent
		}
		return well
	})
	h.untilReady(id, 2)
}

func TestNodesThatFallSilentTogetherRaiseAnAlarmAndStay(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		h := newHeart(t, url, 10)
		id := h.create("hello", 4)
		h.untilReady(id, 4)
		before := h.nodesOf(id)
		alarm := regexp.MustCompile("[45] of 5 nodes on the controller's host are lost at once") // 5: on a busy host, n1 is late
		h.change(func(n node.Node) speech {
			if n.Name == "n1" {
				return well
			}
			return silent
		})
		h.until(id, "degraded with an alarm", func(c cluster.Cluster, _ []node.Node) bool {
			return c.Phase == core.Degraded && alarm.MatchString(c.Reason)
		})
		time.Sleep(2 * hush)
		if failed := h.failures(); len(failed) > 0 {
			t.Errorf("failed: %q", failed)
		}
		// An operator knows better of one of them.
		gone := before["n4"]
		h.update(func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, gone.MachineID)
			if err != nil {
				return err
			}
			return machine.Quarantine(ctx, tx, m, "by admin: it burnt")
		})
		h.until(id, "given up", func(_ cluster.Cluster, nodes []node.Node) bool {
			return len(nodes) == 5 && nodes[4].Name == "n4" && nodes[4].ID != gone.ID
		})
		h.change(func(node.Node) speech { return well })
		h.untilReplaced(id, before, "n4")
		if !h.eventually(func() bool { return len(h.alarms()) == 0 }) {
			t.Errorf("the alarm stands: %v", h.alarms())
		}
		if failed := h.failures(); len(failed) != 1 || !strings.Contains(failed[0], "is quarantined: by admin: it burnt") {
			t.Errorf("failed: %q", failed)
		}
	})
}

// look makes a node look at itself now.
func (h *heart) look(n node.Node) {
	h.update(func(_ context.Context, tx *core.Tx) error {
		tx.Wake(node.Kind, n.ID)
		return nil
	})
}

func TestTheLastToBeHeardAfterAnAlarmHasItsTimeToo(t *testing.T) {
	t.Parallel()
	h := newHeart(t, t.TempDir()+"/db", 6)
	id := h.create("hello", 4)
	h.untilReady(id, 4)
	before := h.nodesOf(id)
	h.change(func(node.Node) speech { return silent })
	h.until(id, "degraded with an alarm", func(c cluster.Cluster, _ []node.Node) bool {
		return c.Phase == core.Degraded && len(h.alarms()) == 1
	})
	h.change(func(n node.Node) speech {
		if n.ID == before["n1"].ID {
			return silent
		}
		return well
	})
	for len(h.alarms()) > 0 {
		h.look(before["n1"])
	}
	h.untilReplaced(id, before, "n1")
	if had := h.between("site.alarm", "n1"); had < hush/2 {
		t.Errorf("n1 had %s to speak again: %q", had, h.failures())
	}
}

// between is how long after the last event of a type a node failed. Events have the time at which their transactions end, and
// what is counted begins within one: on a busy machine it is somewhat less than what was given.
func (s *fixture) between(what, node string) (had time.Duration) {
	s.Helper()
	s.view(func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 10000})
		var over time.Time
		for _, e := range events {
			switch {
			case e.Type == what && (e.Node == "" || e.Node == node):
				over = e.At
			case e.Node == node && e.Phase == core.Failed:
				had = e.At.Sub(over)
			}
		}
		return err
	})
	return had
}

func TestAControllerDoesNotTakeItsOwnDeafnessForTheirs(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		h := newHeart(t, url, 5)
		id := h.create("hello", 1) // two nodes; one of them may be lost alone
		h.untilReady(id, 1)
		before := h.nodesOf(id)
		only := func(n node.Node) speech {
			if n.ID == before["n1"].ID {
				return silent
			}
			return well
		}
		h.deaf.Store(true)
		time.Sleep(6 * time.Second) // longer than the limit, and than what the database takes for a hiccup
		heard := time.Now()
		h.change(only)
		h.deaf.Store(false)
		h.untilReplaced(id, before, "n1")
		if took := time.Since(heard); took < hush {
			t.Errorf("n1 had %s to speak again", took)
		}
		if failed := h.failures(); len(failed) != 1 {
			t.Errorf("failed: %q", failed)
		}
	})
}

func TestReplacementsOfManyWaitUntilItIsCalm(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 12)
	s.limit(func(l *substrate.Deadlines) { l.FailureWindow = time.Hour })
	s.run(1)
	s.untilFree(12)
	id := s.create("hello", 5)
	s.untilReady(id, 5)
	before := s.nodesOf(id)
	for _, name := range []string{"n2", "n3", "n4"} {
		s.substrate.DieWithMachine(before[name].Machine)
	}
	s.update(func(_ context.Context, tx *core.Tx) error {
		for _, n := range before {
			tx.Wake(node.Kind, n.ID)
		}
		return nil
	})
	s.until(id, "waiting", func(c cluster.Cluster, _ []node.Node) bool {
		return c.Short == "waits: 3 of 6 nodes on the controller's host failed within 1h0m0s"
	})
	s.clock.Advance(time.Hour)
	s.untilReplaced(id, before, "n2", "n3", "n4")
}

func TestANodeThatStopsOnItsWayUpIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 3)
	s.limit(func(l *substrate.Deadlines) { l.Silence, l.Join, l.Test = time.Hour, time.Hour, time.Hour })
	first := "" // the first n1, which says nothing
	s.mute = func(n node.Node) bool {
		if n.Name == "n1" && first == "" {
			first = n.ID
		}
		return n.ID == first
	}
	s.run(1)
	s.untilFree(3)
	id := s.create("hello", 1)
	var up node.Node
	in := func(phase core.Phase) func(cluster.Cluster, []node.Node) bool {
		return func(_ cluster.Cluster, nodes []node.Node) bool {
			if len(nodes) == 2 {
				up = nodes[1]
			}
			seen, _ := s.substrate.Observe(t.Context(), substrate.Ref{Cluster: id, Node: up.ID, Boot: up.Boot})
			return up.Phase == phase && seen.Running
		}
	}
	s.until(id, "booting", in(node.Booting))
	s.update(func(ctx context.Context, tx *core.Tx) error { // all that its agent comes to
		tx.Wake(node.Kind, up.ID)
		_, err := node.UseToken(ctx, tx, up.ID, up.Boot, "key")
		return err
	})
	s.until(id, "joining", in(node.Joining))
	s.substrate.Die(substrate.Ref{Cluster: id, Node: up.ID, Boot: up.Boot}, "killed")
	s.untilReady(id, 1)
	if failed := s.failures(); len(failed) != 1 || failed[0] != "n1: it stopped by itself: killed" {
		t.Errorf("%q", failed)
	}
}

func TestANameWhoseNodesFailAgainAndAgainRestsLongerEachTime(t *testing.T) {
	t.Parallel()
	h := newHeart(t, t.TempDir()+"/db", 6, func(l *substrate.Deadlines) { l.FailureWindow = 2 * time.Second })
	id := h.create("hello", 2)
	h.untilReady(id, 2)
	h.change(func(n node.Node) speech {
		if n.Name == "n2" {
			return silent
		}
		return well
	})
	h.until(id, "waiting", func(c cluster.Cluster, nodes []node.Node) bool {
		return len(nodes) == 2 && c.Short == "waits: n2 failed more than 3 times within 2 hours, and each further node comes later"
	})
	if failed := h.failures(); len(failed) < 4 { // more, if this was looked at late
		t.Errorf("waits after %q", failed)
	}
	h.change(func(node.Node) speech { return well })
	h.untilReady(id, 2)
	h.view(func(ctx context.Context, tx *core.Tx) error {
		rests, err := core.List(ctx, tx, core.Value[int64],
			`SELECT created_at - LAG(failed_at) OVER (ORDER BY created_at) FROM node WHERE cluster_id = $1 AND name = 'n2'
			ORDER BY created_at LIMIT 9 OFFSET 4`, id)
		for i, rest := range rests {
			if least := 2000 << i; rest < int64(least) {
				t.Errorf("n2 came again after rests of %v ms; the one at %d is to be of %d at least", rests, i, least)
			}
		}
		if len(rests) == 0 {
			t.Error("n2 did not come again")
		}
		return err
	})
}
