package kinds_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/external"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/person"
	"muster/internal/kinds/task"
	"muster/internal/protocol"
)

// batchSystem is an external cluster's: it runs jobs here when it is told to, and now and then does not answer.
type batchSystem struct {
	life.External
	sync.Mutex
	calls  []string
	begun  map[string]int
	holds  bool // jobs wait
	silent int  // calls that are not answered
	// Where shells there take their time, calls wait for let.
	let         chan struct{}
	inside, max int
}

func (b *batchSystem) Follow(ctx context.Context, c external.Cluster, project string, t task.Task) (said task.Said, output []byte,
	err error) {
	b.Lock()
	defer b.Unlock()
	if b.let != nil {
		b.inside++
		b.max = max(b.max, b.inside)
		b.Unlock()
		select {
		case <-b.let:
		case <-ctx.Done():
		}
		b.Lock()
		b.inside--
	}
	if b.silent > 0 {
		b.silent--
		return said, nil, errors.New("arc does not answer")
	}
	b.calls = append(b.calls, c.Name+" "+project+" "+t.Account+" "+t.ID)
	said.Job, said.Nodes = "7", []string{"c1", "c2"}
	switch {
	case b.begun[t.ID] == 0 && !t.Cancel:
		b.begun[t.ID]++
		said.Stage, said.Text = protocol.TaskWaits, "Resources"
	case t.Cancel:
		said.Stage, said.Outcome = protocol.TaskEnded, protocol.TaskCancelled
	case b.holds:
		said.Stage = protocol.TaskRuns
	default:
		said.Stage, said.Outcome = protocol.TaskEnded, protocol.TaskOK
		mark := strings.Fields(t.Work.Script[strings.Index(t.Work.Script, "mark=")+len("mark="):])[0]
		output = []byte("\n@" + mark + " begin 0\nc1 1\nc2 3\n@" + mark + " end 0 0 1 2\n")
	}
	return said, output, nil
}

func (b *batchSystem) Forget(_ context.Context, _ external.Cluster, _, _, run string) error {
	b.Lock()
	defer b.Unlock()
	b.calls = append(b.calls, "forget "+run)
	return nil
}

// addAtExternal adds external cluster arc, ada, who is a member of the default project, and a run of hers there.
func addAtExternal(t *testing.T, s *core.Store) {
	t.Helper()
	p := planOf(t, 2, "run: echo\nread: [{quantity: q, lines: '^(?P<node>c.) (?P<value>.*)', unit: s, better: lower}]\n")
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		err := external.Add(ctx, tx, external.Cluster{Name: "arc", Login: "arc:22", Probe: "muster", HostKeys: []string{"x"},
			Projects: []external.Project{{Project: "default", Rule: external.SameAccount}}})
		if err == nil {
			err = person.Add(ctx, tx, person.Person{Name: "ada"})
		}
		if err == nil {
			err = person.SetMember(ctx, tx, person.Membership{Project: "default", Person: "ada", Role: access.Member})
		}
		if err == nil {
			err = bench.Add(ctx, tx, bench.Run{ID: "b1", Project: "default", ClusterID: bench.AtExternal("arc", "default"),
				Cluster: "arc", Account: "ada", Plan: p})
		}
		return err
	})
}

// TestARunOnAnExternalClusterIsDoneAsItsPersonsJobs: each round is begun once, also where the external cluster does not answer
// for a while, what its nodes have measured is theirs, and nothing is left.
func TestARunOnAnExternalClusterIsDoneAsItsPersonsJobs(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addAtExternal(t, s)
		b := &batchSystem{begun: map[string]int{}, silent: 1}
		startBench(t, s, b)
		awaitRun(t, s, "it is told that nobody answers", func(r bench.Run) bool {
			return r.Reason == "round 1 of 2: arc does not answer"
		})
		r := awaitRun(t, s, "it ends", func(r bench.Run) bool { wake(t, s); return r.Phase == bench.Ended })
		if r.Outcome != bench.OK || r.Round != 2 || r.Broken != 0 {
			t.Errorf("%+v", r)
		}
		b.Lock()
		defer b.Unlock()
		if want := []string{"arc default ada b1.0", "arc default ada b1.1", "forget b1"}; !slices.Equal(slices.Compact(b.calls),
			want) {
			t.Errorf("%q", b.calls)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			rounds, err := bench.Rounds(ctx, tx, "b1")
			if err == nil && (rounds[1].Nodes["c2"] != "arc:c2" || len(rounds[1].Steps[0].Samples) != 2) {
				t.Errorf("%+v", rounds)
			}
			return err
		})
	})
}

// TestARunOnAnExternalClusterEndsWithItsPersonsRight to go there, and when it is cancelled.
func TestARunOnAnExternalClusterEndsWithItsPersonsRight(t *testing.T) {
	for name, end := range map[string]struct {
		by   func(ctx context.Context, tx *core.Tx) error
		why  string
		last string
		deaf bool // the external cluster does not answer any more
	}{
		"cancelled": {by: func(ctx context.Context, tx *core.Tx) error { return bench.WantEnd(ctx, tx, "b1") },
			why: "after 1 of 2 rounds", last: "forget b1"},
		"cancelled, and nobody answers": {by: func(ctx context.Context, tx *core.Tx) error {
			return bench.WantEnd(ctx, tx, "b1")
		}, why: "the job of round 1 may still run: arc does not answer", last: "arc default ada b1.0", deaf: true},
		"a member no more": {by: func(ctx context.Context, tx *core.Tx) error {
			return person.RemoveMember(ctx, tx, "default", "ada")
		}, why: "ada may not run jobs at external cluster arc any more; the one of round 1 may still run", last: "arc default ada b1.0"},
		"no such external cluster": {by: func(ctx context.Context, tx *core.Tx) error { return external.Remove(ctx, tx, "arc") },
			why: "ada may not run jobs at external cluster arc any more; the one of round 1 may still run", last: "arc default ada b1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := kindstest.Open(t, t.TempDir()+"/db")
			addAtExternal(t, s)
			b := &batchSystem{begun: map[string]int{}, holds: true}
			startBench(t, s, b)
			awaitRun(t, s, "its job runs", func(r bench.Run) bool {
				wake(t, s)
				return r.Reason == "round 1 of 2 runs on c1, c2 as job 7"
			})
			if end.deaf {
				b.Lock()
				b.silent = 1000
				b.Unlock()
			}
			kindstest.Update(t, s, end.by)
			r := awaitRun(t, s, "it ends", func(r bench.Run) bool { wake(t, s); return r.Phase == bench.Ended })
			b.Lock()
			defer b.Unlock()
			if r.Outcome != bench.Cancelled || !strings.HasSuffix(r.Reason, end.why) || b.calls[len(b.calls)-1] != end.last {
				t.Errorf("%s: %s; %q", r.Outcome, r.Reason, b.calls)
			}
		})
	}
}

// TestCallsToExternalClustersLeaveTheEngineToOthers: each holds a worker of the engine, which has 128.
func TestCallsToExternalClustersLeaveTheEngineToOthers(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	addAtExternal(t, s)
	all := func() (all []bench.Run) {
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
			all, err = bench.List(ctx, tx, bench.Of{Cluster: "arc", Limit: 10})
			return err
		})
		return all
	}
	one := all()[0]
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		for _, one.ID = range []string{"b2", "b3", "b4"} {
			if err := bench.Add(ctx, tx, one); err != nil {
				return err
			}
		}
		return nil
	})
	b := &batchSystem{begun: map[string]int{}, let: make(chan struct{})}
	startBench(t, s, b)
	until := func(what string, so func(bench.Run) bool, n int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			wake(t, s)
			found := slices.DeleteFunc(all(), func(r bench.Run) bool { return !so(r) })
			if len(found) == n {
				return
			} else if time.Now().After(end) {
				t.Fatalf("waited in vain: %s; there are %+v", what, all())
			}
		}
	}
	until("two wait", func(r bench.Run) bool {
		return r.Reason == "round 1 of 2 waits: other calls to external clusters go on"
	}, 2)
	close(b.let)
	until("all end", func(r bench.Run) bool { return r.Outcome == bench.OK }, 4)
	if b.Lock(); b.max != 2 {
		t.Errorf("%d calls for one project went on at the same time", b.max)
	}
	b.Unlock()
}

// TestWhatAProjectRepeatsOnAnExternalClusterIsItsOwn: another that may go there, too, does not end it.
func TestWhatAProjectRepeatsOnAnExternalClusterIsItsOwn(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	addAtExternal(t, s)
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		r, err := bench.Get(ctx, tx, "b1")
		if err == nil {
			err = person.AddProject(ctx, tx, person.Project{Name: "other"})
		}
		if err != nil {
			return err
		}
		for _, project := range []string{"default", "other"} {
			watch := bench.Run{ID: "w-" + project, Project: project, ClusterID: bench.AtExternal("arc", project), Cluster: "arc",
				Account: "ada", Plan: r.Plan, Every: time.Hour}
			if err := bench.Add(ctx, tx, watch); err != nil {
				return err
			}
			if name, at := watch.External(); name != "arc" || !at {
				t.Errorf("the external cluster of %s is %q, %t", watch.ClusterID, name, at)
			}
		}
		return bench.EndWatch(ctx, tx, bench.AtExternal("arc", "other"), r.Plan.Suite.Name)
	})
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
		theirs, err := bench.Get(ctx, tx, "w-default")
		if ended, other := bench.Get(ctx, tx, "w-other"); other != nil || !ended.Cancel || theirs.Cancel || theirs.Every == 0 {
			t.Errorf("%+v, %+v, %v", theirs, ended, other)
		}
		return err
	})
}

// wake has a run looked at now.
func wake(t *testing.T, s *core.Store) {
	t.Helper()
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE benchmark SET `+core.Woken+` WHERE phase = 'running'`)
		return err
	})
}
