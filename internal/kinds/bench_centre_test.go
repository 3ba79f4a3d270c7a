package kinds_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"muster/internal/core"
	"muster/internal/door/access"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/centre"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
	"muster/internal/kinds/task"
	"muster/internal/noded/protocol"
)

// batchSystem is a centre's: it runs jobs here when it is told to, and now and then does not answer.
type batchSystem struct {
	sync.Mutex
	calls  []string
	begun  map[string]int
	holds  bool // jobs wait
	silent int  // calls that are not answered
}

func (b *batchSystem) Follow(ctx context.Context, c centre.Centre, project string, t task.Task) (said task.Said, output []byte,
	err error) {
	b.Lock()
	defer b.Unlock()
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

func (b *batchSystem) Forget(_ context.Context, _ centre.Centre, _, _, run string) error {
	b.Lock()
	defer b.Unlock()
	b.calls = append(b.calls, "forget "+run)
	return nil
}

// addAtCentre adds centre arc, ada, who is a member of the default project, and a run of hers there.
func addAtCentre(t *testing.T, s *core.Store) {
	t.Helper()
	p := planOf(t, 2, "run: echo\nread: [{quantity: q, lines: '^(?P<node>c.) (?P<value>.*)', unit: s, better: lower}]\n")
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		err := centre.Add(ctx, tx, centre.Centre{Name: "arc", Login: "arc:22", Probe: "muster", HostKeys: []string{"x"},
			Projects: []centre.Project{{Project: "default", Rule: centre.SameAccount}}})
		if err == nil {
			err = person.Add(ctx, tx, person.Person{Name: "ada"})
		}
		if err == nil {
			err = person.SetMember(ctx, tx, person.Membership{Project: "default", Person: "ada", Role: access.Member})
		}
		if err == nil {
			err = bench.Add(ctx, tx, bench.Run{ID: "b1", Project: "default", ClusterID: bench.AtCentre("arc"), Cluster: "arc",
				Account: "ada", Plan: p})
		}
		return err
	})
}

// TestARunAtACentreIsDoneAsItsPersonsJobs: each round is begun once, also where the centre does not answer for a while, what its
// nodes have measured is theirs, and nothing is left.
func TestARunAtACentreIsDoneAsItsPersonsJobs(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addAtCentre(t, s)
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
		if want := []string{"arc default ada b1.0", "arc default ada b1.0", "arc default ada b1.1", "arc default ada b1.1",
			"forget b1"}; !slices.Equal(b.calls, want) {
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

// TestARunAtACentreEndsWithItsPersonsRight to go there, and when it is cancelled.
func TestARunAtACentreEndsWithItsPersonsRight(t *testing.T) {
	for name, end := range map[string]struct {
		by   func(ctx context.Context, tx *core.Tx) error
		why  string
		last string
	}{
		"cancelled": {func(ctx context.Context, tx *core.Tx) error { return bench.WantEnd(ctx, tx, "b1") }, "after 1 of 2 rounds",
			"forget b1"},
		"a member no more": {func(ctx context.Context, tx *core.Tx) error {
			return person.RemoveMember(ctx, tx, "default", "ada")
		}, "ada may not run jobs at centre arc any more; the one of round 1 may still run", "arc default ada b1.0"},
		"no such centre": {func(ctx context.Context, tx *core.Tx) error { return centre.Remove(ctx, tx, "arc") },
			"ada may not run jobs at centre arc any more; the one of round 1 may still run", "arc default ada b1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := kindstest.Open(t, t.TempDir()+"/db")
			addAtCentre(t, s)
			b := &batchSystem{begun: map[string]int{}, holds: true}
			startBench(t, s, b)
			awaitRun(t, s, "its job runs", func(r bench.Run) bool {
				wake(t, s)
				return r.Reason == "round 1 of 2 runs on c1, c2 as job 7"
			})
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

// wake has a run looked at now.
func wake(t *testing.T, s *core.Store) {
	t.Helper()
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE benchmark SET `+core.Woken+` WHERE phase = 'running'`)
		return err
	})
}
