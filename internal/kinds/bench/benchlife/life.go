package benchlife

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"muster/internal/admission"
	"muster/internal/bench/recipe"
	"muster/internal/bench/round"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/noded/protocol"
)

const (
	looks     = time.Second // how soon it is seen that a task has ended
	startsIn  = time.Minute // what a round takes beside its steps
	longest   = 7 * 24 * time.Hour
	mostWords = 200 // of a sentence why, in bytes
)

// view is a run as its handlers see it.
type view struct {
	bench.Run
	gone     bool // its cluster is deleted, or is being
	task     task.Task
	lost     bool              // there is no such task any more
	output   []byte            // of a task that has ended
	machines map[string]string // of the cluster's nodes, by name

	steps, notOK int // of a run whose rounds have ended
}

func (h Handlers) table() core.StateTable[view] {
	return core.StateTable[view]{
		DB:   h.DB,
		Of:   bench.Kind,
		Load: load,
		Phases: map[core.Phase]core.Handler[view]{
			core.Pending:  {Do: begin},
			bench.Running: {Do: follow},
		},
	}
}

func load(ctx context.Context, tx *core.Tx, id string) (v view, s core.Subject, err error) {
	if v.Run, err = bench.Get(ctx, tx, id); err != nil {
		return v, s, err
	}
	s = core.Subject{Life: v.Life, Event: core.Event{Project: v.Project, ClusterID: v.ClusterID, Cluster: v.Cluster}}
	c, err := cluster.Get(ctx, tx, v.ClusterID)
	if v.gone = errors.Is(err, core.ErrNotFound) || c.Desired == core.ToDelete; err != nil && !v.gone {
		return v, s, err
	}
	if v.Task == "" {
		if v.Round >= v.Plan.Rounds {
			v.steps, v.notOK, err = bench.Tally(ctx, tx, id)
		}
		return v, s, err
	}
	v.task, err = task.Get(ctx, tx, v.Task)
	if v.lost = errors.Is(err, core.ErrNotFound); v.lost {
		return v, s, nil
	}
	if err != nil || v.task.Phase != task.Ended {
		return v, s, err
	}
	for {
		piece, err := task.Output(ctx, tx, v.Task, int64(len(v.output)))
		if err != nil {
			return v, s, err
		}
		if len(piece) == 0 {
			break
		}
		v.output = append(v.output, piece...)
	}
	nodes, err := node.Of(ctx, tx, v.ClusterID)
	v.machines = map[string]string{}
	for _, n := range nodes {
		v.machines[n.Name] = n.Machine
	}
	return v, s, err
}

func begin(_ context.Context, v view) core.Outcome {
	if v.Cancel || v.gone {
		return v.end(bench.Cancelled, "before it began")
	}
	return core.Advance(bench.Running, "run %s of %s: suite %s, %d rounds on %d nodes", v.ID, v.Account, v.Plan.Suite.Name,
		v.Plan.Rounds, v.Plan.Nodes.Nodes)
}

// follow has one round after the other done.
func follow(_ context.Context, v view) core.Outcome {
	over := v.Task != "" && (v.lost || v.task.Phase == task.Ended)
	switch {
	case over:
		return core.WaitFor(0, "round %d of %d has ended", v.Round+1, v.Plan.Rounds).With(v.save)
	case v.Task != "" && (v.Cancel || v.gone) && !v.task.Cancel:
		return core.WaitFor(looks, "it is being cancelled").With(func(ctx context.Context, tx *core.Tx) error {
			return task.Cancel(ctx, tx, v.task)
		})
	case v.Task != "":
		return core.WaitFor(looks, "round %d of %d is %s: %s", v.Round+1, v.Plan.Rounds, v.task.Phase, v.task.Reason)
	case v.Cancel || v.gone:
		return v.end(bench.Cancelled, fmt.Sprintf("after %d of %d rounds", v.Round, v.Plan.Rounds))
	case v.Round < v.Plan.Rounds:
		return core.WaitFor(looks, "round %d of %d begins", v.Round+1, v.Plan.Rounds).With(v.next)
	}
	if v.notOK > 0 {
		return v.end(bench.Incomplete, fmt.Sprintf("%d of %d steps are not ok", v.notOK, v.steps))
	}
	return v.end(bench.OK, fmt.Sprintf("%d rounds", v.Round))
}

// next asks for the task of the next round.
func (v view) next(ctx context.Context, tx *core.Tx) error {
	work, err := Work(v.Plan, v.Round)
	if err != nil {
		return err
	}
	t := task.Task{ID: admission.NewID("t"), Cluster: v.ClusterID, Account: v.Account, Work: work}
	if err := task.Add(ctx, tx, t); err != nil {
		return err
	}
	return bench.Begin(ctx, tx, v.Run, t.ID)
}

// Work is what the task of a round runs: all steps that can run, in an order that the plan's seed says.
func Work(p bench.Plan, number int) (task.Work, error) {
	steps, err := p.Steps()
	if err != nil {
		return task.Work{}, err
	}
	var order []int
	limit := startsIn
	for _, i := range rand.New(rand.NewPCG(p.Seed, uint64(number))).Perm(len(steps)) {
		if steps[i].Skip != "" {
			continue
		}
		seconds, err := steps[i].Limit()
		if err != nil {
			return task.Work{}, err
		}
		order = append(order, i)
		limit += time.Duration(seconds) * time.Second
	}
	script, err := round.Script(p.Mark, steps, order)
	if err == nil && len(script) > protocol.MostScript {
		err = fmt.Errorf("the script of a round has %d bytes, and %d are the most: leave some recipes or values out", len(script),
			protocol.MostScript)
	}
	return task.Work{Script: script, Queue: p.Queue, Nodes: p.Nodes.Nodes, Whole: true, Limit: min(limit, longest)}, err
}

// save notes what the round that has ended left.
func (v view) save(ctx context.Context, tx *core.Tx) error {
	steps, err := v.Plan.Steps()
	if err != nil {
		return err
	}
	said := v.task.Said
	o := bench.Round{Number: v.Round, State: string(cmp.Or(v.task.Outcome, protocol.TaskLost)), Why: said.Text,
		Nodes: map[string]string{}}
	o.Began = cmp.Or(said.Began, v.task.CreatedAt, v.PhaseAt)
	o.Ended = cmp.Or(said.Ended, o.Began)
	for _, name := range said.Nodes {
		o.Nodes[name] = v.machines[name]
	}
	ran := round.Read(v.Plan.Mark, v.output)
	for i, s := range steps {
		o.Steps = append(o.Steps, judge(i, s, ran[i], o))
	}
	return bench.SaveRound(ctx, tx, v.Run, o)
}

// judge says what became of a step.
func judge(number int, s recipe.Step, ran *round.Ran, in bench.Round) bench.Step {
	step := bench.Step{Number: number}
	why := func(state bench.State, format string, arguments ...any) bench.Step {
		step.State, step.Why = state, fmt.Sprintf(format, arguments...)
		step.Why = strings.ToValidUTF8(step.Why[:min(len(step.Why), mostWords)], "")
		return step
	}
	ending := strings.TrimSuffix(in.State+": "+in.Why, ": ")
	switch {
	case s.Skip != "":
		return why(bench.StepSkipped, "%s", s.Skip)
	case ran == nil:
		return why(bench.StepNotRun, "its job ended before: %s", ending)
	case ran.Missing != "":
		return why(bench.StepSkipped, "there is no program %s", ran.Missing)
	}
	step.Output = ran.Output
	if ran.Ended.IsZero() {
		return why(bench.StepLost, "its job ended meanwhile: %s", ending)
	}
	step.Took = ran.Took()
	limit, _ := s.Limit() // the script was made with it
	switch {
	case ran.Status != 0 && step.Took >= time.Duration(limit)*time.Second:
		return why(bench.StepTimedOut, "it had not ended after %d s", limit)
	case ran.Status != 0:
		return why(bench.StepFailed, "exit status %d: %s", ran.Status, lastLine(ran.Output[""]))
	}
	result := s.Result(ran.Output)
	if step.Samples = result.Samples; len(result.Wrong) > 0 {
		return why(bench.StepInvalid, "%s", strings.Join(result.Wrong, "; "))
	}
	return why(bench.StepOK, "")
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// end ends a run.
func (v view) end(how bench.Outcome, text string) core.Outcome {
	o := core.Advance(bench.Ended, "run %s of %s is %s: %s", v.ID, v.Account, how, text).
		With(func(ctx context.Context, tx *core.Tx) error { return bench.End(ctx, tx, v.Run, how) })
	o.Asleep = true
	return o
}
