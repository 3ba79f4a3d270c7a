// Package benchlife is the life of runs of benchmarks: round after round, each a task of its cluster.
//
// What enters: rows of runs, and what their tasks have written. What leaves: tasks, rows of rounds, new phases, and an event for
// every change.
package benchlife

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/internal/bench/recipe"
	"muster/internal/bench/round"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/external"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

const (
	seenIn    = time.Second      // how soon it is seen that a task has ended
	givesWay  = 5 * seenIn       // to runs that wait for its hosts, which look each 2 s
	holds     = time.Minute      // how long a job that does not begin keeps other runs from its hosts
	againIn   = 10 * time.Second // how soon it is seen that nodes are free, or that a cluster is gone
	mostWords = 200              // of a sentence why, in bytes
)

// view is a run as its handlers see it.
type view struct {
	bench.Run
	gone     bool      // its cluster is deleted, or is being; or its account may not go to its external cluster any more
	other    bench.Run // with which it takes turns
	alone    bool      // there is none, or none any more
	task     task.Task
	external *external.Cluster // that it runs at; nil: its cluster is Muster's
	lost     bool              // there is no such task any more
	output   []byte            // of a task that has ended
	failed   []string          // nodes that have failed since the task of the round that is lost was asked for
	ground   ground            // of its nodes

	crowded bool // a run waits for its hosts

	count map[bench.State]int // steps of a run whose rounds have ended
	first string              // why the first of them is not ok
	past  past

	enough bool   // its values are as precise as was asked for
	busy   string // why no round may begin now; "": one may
	now    time.Time
}

// Handlers are those of runs, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of runs.
func Table(d life.Deps) core.Table {
	h := Handlers{d}
	return core.StateTable[view]{
		DB:   h.DB,
		Of:   bench.Kind,
		Load: load,
		Phases: map[core.Phase]core.Handler[view]{
			core.Pending:  {Do: begin},
			bench.Running: {Do: h.follow},
		},
	}
}

func load(ctx context.Context, tx *core.Tx, id string) (v view, s core.Subject, err error) {
	if v.Run, err = bench.Get(ctx, tx, id); err != nil {
		return v, s, err
	}
	s = core.Subject{Life: v.Life, Event: core.Event{Project: v.Project, ClusterID: v.ClusterID, Cluster: v.Cluster}}
	var c cluster.Cluster
	if name, at := v.External(); at {
		err = v.goThere(ctx, tx, name)
	} else if c, err = cluster.Get(ctx, tx, v.ClusterID); err == nil || errors.Is(err, core.ErrNotFound) {
		v.gone, err = err != nil || c.Desired == core.ToDelete, nil
	}
	if err != nil {
		return v, s, err
	}
	if v.alone = v.Peer == ""; !v.alone {
		v.other, err = bench.Get(ctx, tx, v.Peer)
		if v.alone = errors.Is(err, core.ErrNotFound); err != nil && !v.alone {
			return v, s, err
		}
	}
	if v.Task == "" {
		if !v.gone {
			err = v.look(ctx, tx, c)
		}
		return v, s, err
	}
	if v.now, err = tx.Now(ctx); err != nil || v.external != nil {
		return v, s, err
	}
	v.task, err = task.Get(ctx, tx, v.Task)
	if v.lost = errors.Is(err, core.ErrNotFound); v.lost {
		return v, s, nil
	}
	if err != nil || v.task.Phase != task.Ended {
		return v, s, err
	}
	if v.output, err = task.AllOutput(ctx, tx, v.Task, 0); err != nil {
		return v, s, err
	}
	if v.crowded, err = bench.Crowded(ctx, tx, v.Run); err != nil {
		return v, s, err
	}
	if v.task.Outcome == protocol.TaskLost {
		failures, err := node.FailuresOf(ctx, tx, v.ClusterID, v.task.CreatedAt)
		if err != nil {
			return v, s, err
		}
		for _, f := range failures {
			v.failed = append(v.failed, f.Name)
		}
	}
	v.ground, err = groundOf(ctx, tx, v.ClusterID)
	return v, s, err
}

// look reads what matters to a run while none of its rounds is under way.
func (v *view) look(ctx context.Context, tx *core.Tx, c cluster.Cluster) (err error) {
	if v.now, err = tx.Now(ctx); err != nil {
		return err
	}
	if v.enough, err = v.precise(ctx, tx); err != nil || v.Cancel {
		return err
	}
	if v.Round < v.All() && !v.enough {
		if v.external != nil {
			v.busy = v.queueBusy()
		} else {
			v.busy, err = busy(ctx, tx, v.Run, c)
		}
		return err
	}
	if !v.over() {
		return nil
	}
	if v.count, v.first, err = bench.Tally(ctx, tx, v.ID); err == nil {
		v.past, err = lookBack(ctx, tx, v.Run)
	}
	return err
}

// over says that all rounds have ended: as many as there are to be, or as it takes to be precise.
func (v view) over() bool {
	return v.enough || v.Round >= v.All() && (v.alone || v.other.Round >= v.All() || v.other.Phase == bench.Ended)
}

func begin(_ context.Context, v view) core.Outcome {
	if v.Cancel || v.gone {
		return v.end(bench.Cancelled, "before it began")
	}
	if left := v.Begin.Sub(v.now); v.Every > 0 && left > 0 {
		return core.WaitFor(min(left, againIn), "begins at %s", v.Begin.UTC().Format(time.DateTime))
	}
	switch wait := v.Every > 0 && v.busy != ""; {
	case wait && v.now.Sub(v.Begin) > v.Every/2:
		return core.WaitFor(0, "%s", v.busy).With(v.skip)
	case wait:
		return core.WaitFor(againIn, "waits: %s", v.busy)
	}
	return core.Advance(bench.Running, "run %s of %s: suite %s, %d rounds on %d nodes", v.ID, v.Account, v.Plan.Suite.Name,
		v.Plan.Rounds, v.Plan.Nodes.Nodes)
}

// follow has one round after the other done.
func (h Handlers) follow(ctx context.Context, v view) core.Outcome {
	if v.external == nil || v.gone {
		return v.follow()
	}
	leave, over := h.Calls.Enter(v.Project, false)
	if over != nil {
		return core.WaitFor(life.TurnAgain, "round %d of %d waits: other calls to external clusters go on", v.Round+1, v.All())
	}
	defer leave()
	if v.Task != "" {
		err := h.ask(ctx, &v)
		switch {
		case err != nil && v.Cancel:
			return v.end(bench.Cancelled, fmt.Sprintf("the job of round %d may still run: %v", v.Round+1, err))
		case err != nil:
			return core.WaitFor(againIn, "round %d of %d: %v", v.Round+1, v.All(), err)
		}
	}
	o := v.follow()
	if o.Phase == bench.Ended { // what cannot be removed now goes with the next run there
		_ = h.External.Forget(ctx, *v.external, v.Project, v.Account, v.ID)
	}
	return o
}

func (v view) follow() core.Outcome {
	over := v.Task != "" && (v.lost || v.task.Phase == task.Ended)
	switch {
	case over:
		o, err := v.read()
		if err != nil {
			return core.Retry(err)
		}
		next := time.Duration(0)
		if v.crowded {
			next = givesWay
		}
		return core.WaitFor(next, "round %d of %d has ended", v.Round+1, v.All()).
			With(func(ctx context.Context, tx *core.Tx) error { return v.save(ctx, tx, o) })
	case v.Task != "" && v.gone && v.external != nil:
		return v.end(bench.Cancelled, fmt.Sprintf("%s may not run jobs at external cluster %s any more; "+
			"the one of round %d may still run", v.Account, v.Cluster, v.Round+1))
	case v.Task != "" && (v.Cancel || v.gone) && !v.task.Cancel:
		return core.WaitFor(seenIn, "it is being cancelled").With(func(ctx context.Context, tx *core.Tx) error {
			return task.Cancel(ctx, tx, v.task)
		})
	case v.Task != "" && v.task.Phase != task.Running && v.now.Sub(v.task.CreatedAt) > holds:
		return core.WaitFor(seenIn, "round %d of %d is %s: %s", v.Round+1, v.All(), v.task.Phase, v.task.Reason).
			With(func(ctx context.Context, tx *core.Tx) error { return bench.Leave(ctx, tx, v.Run) })
	case v.Task != "" && v.external != nil:
		return core.WaitFor(againIn, "round %d of %d %s", v.Round+1, v.All(), v.there())
	case v.Task != "":
		return core.WaitFor(seenIn, "round %d of %d is %s: %s", v.Round+1, v.All(), v.task.Phase, v.task.Reason)
	case v.Cancel || v.gone:
		return v.end(bench.Cancelled, fmt.Sprintf("after %d of %d rounds", v.Round, v.All()))
	case v.over():
		return v.finish()
	case !v.alone && v.other.Phase == bench.Ended:
		return v.end(bench.Incomplete, fmt.Sprintf("run %s, which it takes turns with, has ended after %d rounds", v.Peer,
			v.other.Round))
	case !v.alone && (v.Round >= v.All() || !v.Plan.Turn(v.Round, v.other.Round)):
		return core.WaitFor(seenIn, "it is the turn of run %s", v.Peer)
	case v.busy != "" && v.Every > 0 && v.now.After(v.Begin.Add(v.Every)):
		return v.end(bench.Incomplete, fmt.Sprintf("after %d of %d rounds it is to be repeated: %s", v.Round, v.All(), v.busy))
	case v.busy != "":
		return core.WaitFor(2*seenIn, "round %d of %d waits: %s", v.Round+1, v.All(), v.busy)
	}
	return core.WaitFor(seenIn, "round %d of %d begins", v.Round+1, v.All()).With(v.next)
}

// finish says what a run came to whose rounds have all ended.
func (v view) finish() core.Outcome {
	counted := v.Round - v.Broken
	few := counted < v.Plan.Rounds && !v.enough
	if few || v.count[bench.StepOK] == 0 || v.count[bench.StepOK]+v.count[bench.StepSkipped] < total(v.count) {
		text := fmt.Sprintf("%d of %d steps are ok", v.count[bench.StepOK], total(v.count))
		if few {
			text += fmt.Sprintf(", and %d of %d rounds came to their end undisturbed", counted, v.Plan.Rounds)
		}
		return v.end(bench.Incomplete, strings.TrimSuffix(text+": "+v.first, ": "))
	}
	text := words.Count(counted, "round") + ", " + words.Count(v.count[bench.StepOK], "step")
	if skipped := v.count[bench.StepSkipped]; skipped > 0 {
		text += fmt.Sprintf("; %d could not run there", skipped)
	}
	if v.enough && counted < v.Plan.Rounds {
		text += fmt.Sprintf("; as precise as %s %%", words.Figure(v.Plan.Precise*100))
	}
	return v.end(bench.OK, text)
}

func total(count map[bench.State]int) (n int) {
	for _, some := range count {
		n += some
	}
	return n
}

// mostEvents is how many of a cluster's events are read to say what has happened to it.
const mostEvents = 10_000

// next asks for the task of the next round, unless another run was quicker.
func (v view) next(ctx context.Context, tx *core.Tx) error {
	work, err := v.Plan.Work(v.Round)
	if err != nil {
		return err
	}
	if v.external == nil && v.Plan.TellsWhatHappened() {
		events, err := tx.Events(ctx, core.EventsOf{Cluster: v.ClusterID, Limit: mostEvents})
		if err != nil {
			return err
		}
		work.Script = round.Telling(work.Script, bench.Happened(events))
	}
	t := task.Task{ID: core.NewID("t"), Cluster: v.ClusterID, Account: v.Account, Work: work}
	if v.external != nil {
		t.ID = fmt.Sprintf("%s.%d", v.ID, v.Round)
	}
	begun, err := bench.Begin(ctx, tx, v.Run, t.ID)
	if err != nil || !begun || v.external != nil {
		return err
	}
	return task.Add(ctx, tx, t)
}

// read is what the round that has ended left.
func (v view) read() (o bench.Round, err error) {
	steps, err := v.Plan.Steps()
	if err != nil {
		return o, err
	}
	said := v.task.Said
	o = bench.Round{Number: v.Round, State: string(cmp.Or(v.task.Outcome, protocol.TaskLost)), Why: said.Text,
		Nodes: map[string]string{}}
	o.Began = v.within(cmp.Or(said.Began, v.task.CreatedAt))
	o.Ended = v.within(cmp.Or(said.Ended, o.Began))
	for _, name := range said.Nodes {
		if o.Nodes[name] = v.ground.nodes[name].Machine; v.external != nil {
			o.Nodes[name] = v.Cluster + ":" + name
		}
	}
	// By now the scheduler may know a node's successor alone.
	lost := slices.DeleteFunc(slices.Clone(v.failed), func(name string) bool { return !slices.Contains(said.Nodes, name) })
	if len(lost) > 0 && !strings.Contains(o.Why, " lost: ") {
		o.Why = words.Were(lost, "lost: ") + o.Why
	}
	left := round.Read(v.Plan.Mark, v.output)
	ran := left.Steps
	for name, look := range left.Before {
		maps.Copy(look, v.ground.of(name))
	}
	o.Looks = bench.Looks{Before: left.Before, After: left.After}
	if !v.Plan.Suite.Brief { // which shows that all of it runs, whatever happens beside it
		o.Disturbed = clip(left.Disturbed())
	}
	if len(ran) == 0 { // it did not even come to its first step
		o.Why = strings.Trim(o.Why+": "+clip(lastLine(string(v.output))), ": ")
	}
	for i, s := range steps {
		o.Steps = append(o.Steps, judge(i, s, ran[i], o))
	}
	return o, o.Pack()
}

// within is a time that a head or an external cluster has told, by its own clock, held within the time for which the run has gone
// on: it orders what others have measured, too.
func (v view) within(told time.Time) time.Time {
	switch {
	case told.Before(v.PhaseAt):
		return v.PhaseAt
	case told.After(v.now):
		return v.now
	}
	return told
}

// save notes a round that has ended.
func (v view) save(ctx context.Context, tx *core.Tx, o bench.Round) error {
	if err := bench.SaveRound(ctx, tx, v.Run, o); err != nil || v.task.Outcome != protocol.TaskCancelled {
		return err
	}
	return bench.WantEnd(ctx, tx, v.ID) // a user who has cancelled its job wants no other
}

// judge says what became of a step.
func judge(number int, s recipe.Step, ran *round.Ran, in bench.Round) bench.Step {
	step := bench.Step{Number: number}
	why := func(state bench.State, format string, arguments ...any) bench.Step {
		step.State, step.Why = state, clip(fmt.Sprintf(format, arguments...))
		return step
	}
	ending := strings.TrimSuffix(in.State+": "+in.Why, ": ")
	switch {
	case s.Skip != "":
		return why(bench.StepSkipped, "%s", s.Skip)
	case ran == nil:
		return why(bench.StepNotRun, "its job ended before: %s", ending)
	case ran.Missing != "":
		if hint := s.Recipe.Needs.Hint; strings.Contains(ran.Missing, "/") {
			return why(bench.StepSkipped, "%s", strings.TrimSuffix("there is no file "+ran.Missing+": "+hint, ": "))
		}
		return why(bench.StepSkipped, "there is no program %s", ran.Missing)
	case ran.Unwritten:
		return why(bench.StepFailed, "its folder in /home cannot be written")
	}
	step.Output = s.Kept(ran.Output)
	if ran.Ended.IsZero() {
		return why(bench.StepLost, "its job ended meanwhile: %s", ending)
	}
	step.Took = ran.Took()
	limit, _ := s.Limit() // the script was made with it
	switch {
	case ran.Status != 0 && step.Took >= time.Duration(limit)*time.Second:
		return why(bench.StepTimedOut, "%s",
			strings.TrimSuffix(fmt.Sprintf("it had not ended after %d s: %s", limit, lastLine(ran.Output[""])), ": "))
	case ran.Status != 0:
		return why(bench.StepFailed, "exit status %d: %s", ran.Status, lastLine(ran.Output[""]))
	case ran.Unkept:
		return why(bench.StepInvalid, "not all that it has written could be kept: the disk of /home may be full")
	}
	result := s.Result(ran.Output)
	if ran.Cut {
		result.Wrong = append(result.Wrong, fmt.Sprintf("the steps of its round have written more than %d MiB, of which the rest "+
			"was not kept", round.MostTexts>>20))
	}
	if step.Samples = result.Samples; len(result.Wrong) > 0 {
		return why(bench.StepInvalid, "%s", strings.Join(result.Wrong, "; "))
	}
	return why(bench.StepOK, "")
}

// clip keeps a sentence short, whatever a program wrote.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), mostWords)], "") }

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// skip leaves a time out that a run was to begin at.
func (v view) skip(ctx context.Context, tx *core.Tx) error {
	next := v.Next(v.now)
	tx.Log(core.Event{Type: "benchmark.skipped", Project: v.Project, ClusterID: v.ClusterID, Cluster: v.Cluster,
		Text: fmt.Sprintf("suite %s is left out until %s: %s", v.Plan.Suite.Name, next.UTC().Format(time.DateTime), v.busy)})
	return bench.Postpone(ctx, tx, v.Run, next)
}

// repeat has the next run of one that is repeated wait for its time.
func (v view) repeat(ctx context.Context, tx *core.Tx) error {
	if now, err := bench.Get(ctx, tx, v.ID); err != nil || now.Every == 0 { // somebody has ended the watch meanwhile
		return err
	}
	return bench.Add(ctx, tx, bench.Run{ID: core.NewID("b"), Project: v.Project, ClusterID: v.ClusterID, Cluster: v.Cluster,
		Account: v.Account, Plan: v.Plan.Drawn(), Every: v.Every, Begin: v.Next(v.now)})
}

// end ends a run.
func (v view) end(how bench.Outcome, text string) core.Outcome {
	o := core.Advance(bench.Ended, "run %s of %s is %s: %s", v.ID, v.Account, how, text).
		With(func(ctx context.Context, tx *core.Tx) error { return bench.End(ctx, tx, v.Run, how) }).
		With(func(ctx context.Context, tx *core.Tx) error { return v.past.keep(ctx, tx, v.Run) })
	if v.Every > 0 && !v.gone {
		o = o.With(v.repeat)
	}
	o.Asleep = true
	return o
}
