package schedulertest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// Rig is a cluster whose scheduler runs, with a compute node that has no jobs. The contract ends with the node's removal.
type Rig struct {
	Users
	Node string
	// Down takes the node out of service by the scheduler's own means, as somebody does who runs it; nil: there are none.
	Down func(*testing.T)
	// Acts are what users run on the head to do something with a job of theirs; nil: there is no such thing.
	Acts map[scheduler.Act]func(job string) []string
	// Unseen are reasons why the node cannot be brought into a state here.
	Unseen map[protocol.State]string
}

// ControlContract is what every scheduler that knows of jobs does with a node, in each state that there is, and with its jobs.
// Its users' homes are there, as RunnerContract has made them.
func ControlContract(t *testing.T, driver scheduler.Driver, rig Rig) {
	rig.Seen = cmp.Or(rig.Seen, rig.Homes)
	c := controlling{driver.(scheduler.Control), running{driver.(scheduler.Runner), rig.Users}, rig, map[protocol.State]bool{}}
	t.Run("a node with jobs is busy, and is drained when they have ended", c.drains)
	t.Run("a job is taken off its nodes", c.endsJobs)
	t.Run("of a user who is refused no new jobs are taken, and those in the queue go on", c.refuses)
	if rig.Acts != nil {
		t.Run("users hold, release and requeue their jobs, and nobody else's", c.acts)
	}
	if rig.Down != nil {
		t.Run("a node that somebody takes out of service is down", c.goesDown)
	}
	if s, sleeps := driver.(scheduler.Suspender); sleeps {
		t.Run("jobs outlive that their nodes sleep", func(t *testing.T) { c.outlives(t, s) })
	}
	if s, tells := driver.(scheduler.Teller); tells {
		t.Run("people are told of jobs", func(t *testing.T) { c.tells(t, s) })
	}
	t.Run("a node that is removed is forgotten", c.removes)
	for _, state := range protocol.States() {
		if why := rig.Unseen[state]; why != "" {
			t.Run(string(state), func(t *testing.T) { t.Skip("not tried here: ", why) })
		} else if !c.seen[state] {
			t.Errorf("no node was ever %s", state)
		}
	}
}

type controlling struct {
	scheduler.Control
	running
	rig  Rig
	seen map[protocol.State]bool
}

// node is what the scheduler says of the rig's node; nil: it knows none.
func (c controlling) node(t *testing.T) (*protocol.NodeState, scheduler.View) {
	t.Helper()
	v, err := c.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(v.Nodes, func(n protocol.NodeState) bool { return n.Name == c.rig.Node }); i >= 0 {
		return &v.Nodes[i], v
	}
	return nil, v
}

// becomes waits until the node is in a state.
func (c controlling) becomes(t *testing.T, state protocol.State) (n *protocol.NodeState, v scheduler.View) {
	t.Helper()
	until(t, c.rig.Node+" "+string(state), func() bool {
		n, v = c.node(t)
		return n != nil && n.State == state
	})
	c.seen[state] = true
	if n.Name == "" || n.Raw == "" || n.Jobs != len(v.Jobs[n.Name]) {
		t.Errorf("it says %+v, and of jobs %+v", n, v.Jobs)
	}
	return n, v
}

// twice does what may be done again.
func twice(t *testing.T, do func() error) {
	t.Helper()
	for range 2 {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
}

// starts submits a job to the node that goes on until it is ended.
func (c controlling) starts(t *testing.T, name string) (job string) {
	t.Helper()
	w := c.work(t, "alice", name, "exec sleep 600")
	w.On = []string{c.rig.Node}
	return c.submit(t, w)
}

// maintenance is no reason of Muster's: the cluster's own agent, which runs beside, ends none of those that it did not give.
const maintenance = "maintenance: a fan is loud"

func (c controlling) drains(t *testing.T) {
	if n, _ := c.becomes(t, protocol.NodeFree); !n.Usable() || n.Closed() || n.Jobs > 0 {
		t.Errorf("a free node is %+v", n)
	}
	first := c.starts(t, "first")
	if n, v := c.becomes(t, protocol.NodeBusy); !n.Working() || n.Jobs != 1 || strconv.Itoa(v.Jobs[n.Name][0].ID) != first {
		t.Errorf("with job %s it is %+v, with jobs %+v", first, n, v.Jobs)
	}
	twice(t, func() error { return c.Drain(t.Context(), c.rig.Node, maintenance) })
	if n, _ := c.becomes(t, protocol.NodeDraining); !n.Closed() || !n.Working() || n.Drained() ||
		!strings.Contains(n.Reason, maintenance) {
		t.Errorf("a node that drains is %+v", n)
	}
	second := c.starts(t, "second")
	if s, err := c.Follow(t.Context(), first); err != nil || s.Stage != protocol.TaskRuns {
		t.Errorf("a job on a node that drains: %+v, %v", s, err)
	}
	if err := c.Cancel(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	n, v := c.becomes(t, protocol.NodeDrained)
	if !n.Drained() || n.Working() || n.Usable() || v.Total != 1 {
		t.Errorf("a drained node is %+v, and %d jobs wait", n, v.Total)
	}
	if s, err := c.Follow(t.Context(), second); err != nil || s.Stage != protocol.TaskWaits {
		t.Errorf("a job for a drained node: %+v, %v", s, err)
	}
	twice(t, func() error { return c.Resume(t.Context(), c.rig.Node) })
	c.reaches(t, second, protocol.TaskRuns)
	if err := c.Cancel(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if n, _ := c.becomes(t, protocol.NodeFree); n.Closed() {
		t.Errorf("a node that was resumed is %+v", n)
	}
}

func (c controlling) endsJobs(t *testing.T) {
	job := c.starts(t, "unwanted")
	c.becomes(t, protocol.NodeBusy)
	number, err := strconv.Atoi(job)
	if err != nil {
		t.Fatal(err)
	}
	twice(t, func() error { return c.End(t.Context(), number) })
	c.becomes(t, protocol.NodeFree)
	if s, err := c.Follow(t.Context(), job); err != nil || s.Stage == protocol.TaskRuns {
		t.Errorf("a job that was taken off its nodes: %+v, %v", s, err)
	}
	twice(t, func() error { return c.End(t.Context(), 999999) }) // there is none
}

func (c controlling) refuses(t *testing.T) {
	twice(t, func() error { return c.Drain(t.Context(), c.rig.Node, maintenance) })
	waits := c.submit(t, c.work(t, "alice", "waits", "true"))
	twice(t, func() error { return c.Refuse([]int{numbers()["alice"], 1}) })
	if job, err := c.Submit(t.Context(), c.work(t, "alice", "new", "true")); !errors.Is(err, scheduler.ErrRefusedJob) {
		t.Errorf("a new job of who is refused: %q, %v", job, err)
	}
	theirs := c.submit(t, c.work(t, "mallory", "new", "true"))
	twice(t, func() error { return c.Resume(t.Context(), c.rig.Node) })
	for _, job := range []string{waits, theirs} {
		if s := c.reaches(t, job, protocol.TaskEnded); s.Exit != 0 || s.Cancelled || s.Forgotten {
			t.Errorf("job %s: %+v", job, s)
		}
	}
	twice(t, func() error { return c.Refuse(nil) })
	if s := c.ends(t, c.work(t, "alice", "back", "true")); s.Exit != 0 {
		t.Errorf("a job of who is back: %+v", s)
	}
	c.becomes(t, protocol.NodeFree)
}

func (c controlling) acts(t *testing.T) {
	as := func(user string, act scheduler.Act, job string) error {
		out, err := c.rig.Run(t.Context(), numbers()[user], c.rig.Acts[act](job)...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	twice(t, func() error { return c.Drain(t.Context(), c.rig.Node, maintenance) })
	job := c.starts(t, "held")
	if err := as("mallory", scheduler.Hold, job); err == nil {
		t.Error("somebody holds another's job")
	}
	twice(t, func() error { return as("alice", scheduler.Hold, job) })
	twice(t, func() error { return c.Resume(t.Context(), c.rig.Node) })
	if s := c.ends(t, c.work(t, "alice", "passes", "true")); s.Exit != 0 {
		t.Errorf("a job that is not held: %+v", s)
	}
	if err := as("mallory", scheduler.Release, job); err == nil {
		t.Error("somebody releases another's job")
	}
	if s, err := c.Follow(t.Context(), job); err != nil || s.Stage != protocol.TaskWaits {
		t.Errorf("a held job: %+v, %v", s, err)
	}
	twice(t, func() error { return as("alice", scheduler.Release, job) })
	c.reaches(t, job, protocol.TaskRuns)
	if err := as("mallory", scheduler.Requeue, job); err == nil {
		t.Error("somebody requeues another's job")
	}
	stage := protocol.TaskWaits
	if as("alice", scheduler.Requeue, job) != nil { // it was submitted as one that may not start again
		stage = protocol.TaskRuns
	}
	c.reaches(t, job, stage)
	if err := c.Cancel(t.Context(), job); err != nil {
		t.Error(err)
	}
	c.becomes(t, protocol.NodeFree)
}

func (c controlling) goesDown(t *testing.T) {
	c.rig.Down(t)
	if n, _ := c.becomes(t, protocol.NodeDown); n.Usable() || n.Closed() || n.Lost() {
		t.Errorf("a node out of service is %+v", n)
	}
	twice(t, func() error { return c.Resume(t.Context(), c.rig.Node) })
	c.becomes(t, protocol.NodeFree)
}

func (c controlling) outlives(t *testing.T, s scheduler.Suspender) {
	twice(t, func() error { return s.Awake(t.Context()) }) // nothing sleeps
	job := c.starts(t, "sleeper")
	c.reaches(t, job, protocol.TaskRuns)
	twice(t, func() error { return s.Suspend(t.Context()) })
	twice(t, func() error { return s.Awake(t.Context()) })
	if s, err := c.Follow(t.Context(), job); err != nil || s.Stage != protocol.TaskRuns {
		t.Errorf("a job whose node has slept: %+v, %v", s, err)
	}
	if err := c.Cancel(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	c.becomes(t, protocol.NodeFree)
}

// tells has a job run, and end: by its own user alone, where there is a command for that.
func (c controlling) tells(t *testing.T, s scheduler.Teller) {
	began := time.Now().Add(-time.Minute)
	job := c.starts(t, "told")
	c.reaches(t, job, protocol.TaskRuns)
	told := func() (told protocol.JobsTold, of *protocol.CurrentJob) {
		told, err := s.Tell(t.Context(), began)
		if err != nil || told.Current == nil {
			t.Fatalf("%+v, %v", told, err)
		}
		for i, j := range told.Current.Jobs {
			if j.ID == job {
				of = &told.Current.Jobs[i]
			}
		}
		return told, of
	}
	if all, of := told(); of == nil || of.User != "alice" || of.Began.IsZero() || of.NodeCount != 1 || of.CPUs < 1 ||
		of.Nodes != c.rig.Node || all.Current.Running != 1 {
		t.Errorf("of job %s it tells %+v, of all %+v", job, of, all.Current)
	}
	if c.rig.Acts != nil {
		if out, err := c.rig.Run(t.Context(), numbers()["mallory"], c.rig.Acts[scheduler.Cancel](job)...); err == nil {
			t.Errorf("somebody else ends it: %s", out)
		}
		c.reaches(t, job, protocol.TaskRuns)
		if out, err := c.rig.Run(t.Context(), numbers()["alice"], c.rig.Acts[scheduler.Cancel](job)...); err != nil {
			t.Errorf("its user ends it: %s, %v", out, err)
		}
	} else if err := c.Cancel(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	c.becomes(t, protocol.NodeFree)
	until(t, "the end of a job is told, or nobody tells of those", func() bool {
		all, of := told()
		return of == nil && (all.Until.IsZero() || slices.ContainsFunc(all.Ended, func(j protocol.EndedJob) bool {
			return j.ID == job && j.User == "alice" && j.Outcome == protocol.JobCancelled && !j.Began.IsZero()
		}))
	})
}

func (c controlling) removes(t *testing.T) {
	until(t, c.rig.Node+" forgotten", func() bool {
		if err := c.Remove(t.Context(), c.rig.Node); err != nil {
			t.Fatal(err)
		}
		n, _ := c.node(t)
		return n == nil
	})
	twice(t, func() error { return c.Remove(t.Context(), c.rig.Node) })
	if n, v := c.node(t); n != nil || len(v.Jobs[c.rig.Node]) > 0 {
		t.Errorf("of a node that was removed it says %+v, and of jobs %+v", n, v.Jobs)
	}
}
