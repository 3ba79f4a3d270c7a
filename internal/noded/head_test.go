package noded

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

func TestWhatIsPlannedForANode(t *testing.T) {
	compute := func(p protocol.Peer) []protocol.Peer {
		p.Name, p.Role = "n1", protocol.Compute
		return []protocol.Peer{{Name: "head", Role: protocol.Head}, p}
	}
	idle := protocol.NodeState{Name: "n1", State: protocol.NodeFree, Responding: true}
	drained := func(reason string) protocol.NodeState {
		n := idle
		n.State, n.Reason = protocol.NodeDrained, reason
		return n
	}
	jobs := map[string][]scheduler.Job{"n1": {{ID: 7}, {ID: 8, Ends: true}}}
	for name, c := range map[string]struct {
		peers   []protocol.Peer
		view    scheduler.View
		want    []action
		settled bool
	}{
		"it is as it should be": {compute(protocol.Peer{}), scheduler.View{Nodes: []protocol.NodeState{idle}}, nil,
			true},
		"the scheduler does not know it yet": {compute(protocol.Peer{}), scheduler.View{}, nil, false},
		"it does not respond": {compute(protocol.Peer{}),
			scheduler.View{Nodes: []protocol.NodeState{{Name: "n1", State: protocol.NodeFree}}}, nil, false},
		"it is to drain": {compute(protocol.Peer{Drain: true}),
			scheduler.View{Nodes: []protocol.NodeState{idle}}, []action{{verb: "drain", node: "n1"}}, false},
		"it drains already": {compute(protocol.Peer{Drain: true}),
			scheduler.View{Nodes: []protocol.NodeState{drained("muster: drain")}}, nil, false},
		"it fails a check": {compute(protocol.Peer{Drain: true, Fails: "disk"}),
			scheduler.View{Nodes: []protocol.NodeState{idle}}, []action{{verb: "drain", node: "n1", why: "disk"}}, false},
		"it is drained for a check": {compute(protocol.Peer{Drain: true, Fails: "disk"}),
			scheduler.View{Nodes: []protocol.NodeState{drained("muster: disk fails")}}, nil, true},
		"it is to work again": {compute(protocol.Peer{}),
			scheduler.View{Nodes: []protocol.NodeState{drained("muster: drain")}}, []action{{verb: "resume", node: "n1"}}, false},
		"an administrator has drained it": {compute(protocol.Peer{}),
			scheduler.View{Nodes: []protocol.NodeState{drained("disk")}}, nil, false},
		"its time to drain is over": {compute(protocol.Peer{Drain: true, DrainKill: true}),
			scheduler.View{Nodes: []protocol.NodeState{drained("muster: drain")}, Jobs: jobs},
			[]action{{verb: "end", node: "n1", job: 7}}, false},
		"it is no peer any more": {compute(protocol.Peer{})[:1],
			scheduler.View{Nodes: []protocol.NodeState{idle}, Jobs: jobs}, []action{{verb: "remove", node: "n1"}}, false},
		"its job is on another node that goes, too": {append(compute(protocol.Peer{Drain: true, DrainKill: true}),
			protocol.Peer{Name: "n2", Role: protocol.Compute, Drain: true, DrainKill: true}),
			scheduler.View{Nodes: []protocol.NodeState{drained("muster: drain"),
				{Name: "n2", State: protocol.NodeDraining, Responding: true, Reason: "muster: drain"}},
				Jobs: map[string][]scheduler.Job{"n1": {{ID: 7}}, "n2": {{ID: 7}}}},
			[]action{{verb: "end", node: "n1", job: 7}}, false},
	} {
		if got := plan(c.peers, c.view); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got := settled(c.peers, c.view); got != c.settled {
			t.Errorf("%s: settled %v", name, got)
		}
	}
}

// fakeScheduler behaves as a scheduler does.
type fakeScheduler struct {
	mu    sync.Mutex
	nodes []protocol.NodeState
	jobs  map[string][]scheduler.Job
	log   []string
	looks int
}

func (f *fakeScheduler) Observe(context.Context) (scheduler.View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	return scheduler.View{Nodes: slices.Clone(f.nodes), Jobs: f.jobs}, nil
}

func (f *fakeScheduler) node(name string) *protocol.NodeState {
	i := slices.IndexFunc(f.nodes, func(n protocol.NodeState) bool { return n.Name == name })
	return &f.nodes[i]
}

func (f *fakeScheduler) Drain(_ context.Context, node, reason string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, "drain "+node)
	f.node(node).State, f.node(node).Reason = protocol.NodeDraining, reason
	return nil
}

func (f *fakeScheduler) Resume(_ context.Context, node string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, "resume "+node)
	f.node(node).State, f.node(node).Reason = protocol.NodeFree, ""
	return nil
}

func (f *fakeScheduler) Remove(_ context.Context, node string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, "remove "+node)
	f.nodes = slices.DeleteFunc(f.nodes, func(n protocol.NodeState) bool { return n.Name == node })
	return nil
}

func (f *fakeScheduler) End(_ context.Context, job int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf("end %d", job))
	f.jobs = nil
	return nil
}

func (f *fakeScheduler) Refuse([]int) error { return nil }

func TestTheHeadBringsTheSchedulerToWhatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeScheduler{
			nodes: []protocol.NodeState{{Name: "n1", State: protocol.NodeBusy, Responding: true},
				{Name: "n2", State: protocol.NodeBusy, Responding: true}},
			jobs: map[string][]scheduler.Job{"n1": {{ID: 1}}, "n2": {{ID: 2}}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h := newHeadDuty(f, "looks", newReporter(1, []string{"looks"}), &console{out: io.Discard}, nil)
		h.newest = func(context.Context) ([]protocol.Peer, error) { return h.peers, nil }
		h.want([]protocol.Peer{{Name: "n1", Role: protocol.Compute, Drain: true}})
		go h.run(ctx)
		time.Sleep(time.Second)
		h.want([]protocol.Peer{{Name: "n1", Role: protocol.Compute, Drain: true, DrainKill: true}})
		time.Sleep(time.Second)
		h.want([]protocol.Peer{{Name: "n1", Role: protocol.Compute}})
		time.Sleep(time.Second)
		synctest.Wait()
		cancel()
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if got, want := strings.Join(f.log, ", "), "drain n1, remove n2, end 1, resume n1"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestANodeThatTheHeadHasNotHeardOfYetIsLeftInTheList(t *testing.T) {
	known := []protocol.Peer{{Name: "n1", Role: protocol.Compute}}
	both := append(slices.Clone(known), protocol.Peer{Name: "n2", Role: protocol.Compute})
	for name, c := range map[string]struct {
		newest []protocol.Peer
		err    error
		want   string
	}{
		"the controller knows it":          {both, nil, ""},
		"the controller does not know it":  {known, nil, "remove n2"},
		"the controller cannot be reached": {nil, io.ErrUnexpectedEOF, ""},
	} {
		f := &fakeScheduler{nodes: []protocol.NodeState{{Name: "n1", State: protocol.NodeFree, Responding: true},
			{Name: "n2", State: protocol.NodeFree, Responding: true}}}
		h := newHeadDuty(f, "looks", newReporter(1, []string{"looks"}), &console{out: io.Discard},
			func(context.Context) ([]protocol.Peer, error) { return c.newest, c.err })
		h.want(known)
		h.once(t.Context())
		if got := strings.Join(f.log, ", "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheHeadLooksOftenOnlyWhileSomethingIsToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeScheduler{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h := newHeadDuty(f, "looks", newReporter(1, []string{"looks"}), &console{out: io.Discard}, nil)
		count := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.looks
		}
		looks := func(d time.Duration) int {
			before := count()
			time.Sleep(d)
			synctest.Wait()
			return count() - before
		}
		nodes := func(n ...protocol.NodeState) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.nodes = n
		}
		h.want([]protocol.Peer{{Name: "n1", Role: protocol.Compute}})
		go h.run(ctx)
		if n := looks(time.Second); n < 9 || n > 12 {
			t.Errorf("%d looks in a second while a node is to come", n)
		}
		time.Sleep(fastSpell)
		if n := looks(10 * time.Second); n > 11 {
			t.Errorf("%d looks in 10 s when it does not come", n)
		}
		nodes(protocol.NodeState{Name: "n1", State: protocol.NodeFree, Responding: true})
		time.Sleep(lookSlow)
		if n := looks(10 * time.Second); n > 6 {
			t.Errorf("%d looks in 10 s when all is well", n)
		}
		nodes()
		h.look()
		if n := looks(time.Second); n < 9 {
			t.Errorf("%d looks in a second after the scheduler spoke", n)
		}
	})
}
