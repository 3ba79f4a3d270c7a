// Package bench keeps runs of benchmarks on clusters, with every value that they measured.
//
// What enters: requests from the API, what rounds have left from the lives of runs. What leaves: rows.
package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"muster/internal/bench/recipe"
	"muster/internal/core"
)

// Outcome is how a run has ended.
type Outcome string

// The outcomes.
const (
	OK         Outcome = "ok"         // every step of every round is
	Incomplete Outcome = "incomplete" // some are not
	Cancelled  Outcome = "cancelled"
)

// Run is a suite that is run on a cluster.
type Run struct {
	core.Life
	ID        string
	Project   string
	ClusterID string
	Cluster   string // its name
	Account   string // whom it runs as, and who asked for it
	Plan      Plan
	Cancel    bool   // somebody wants it to end
	Task      string // of the round that is under way; "": none is
	Round     int    // rounds that have ended
	Outcome   Outcome
	CreatedAt time.Time
}

// Plan is what a run does: all that it needs, so that a recipe that changes later changes no run.
type Plan struct {
	Suite   recipe.Suite              `json:"suite"`
	Recipes map[string]*recipe.Recipe `json:"recipes"` // of the suite
	Nodes   recipe.Nodes              `json:"nodes"`
	Queue   string                    `json:"queue,omitempty"`
	Rounds  int                       `json:"rounds"`
	Seed    uint64                    `json:"seed"` // of the orders of steps
	Mark    string                    `json:"mark"` // of lines in jobs' output
}

// Steps are the plan's steps; their numbers are those of rows.
func (p Plan) Steps() ([]recipe.Step, error) {
	l := recipe.Library{Recipes: p.Recipes}
	return l.Steps(&p.Suite, p.Nodes)
}

const columns = `id, project, cluster_id, cluster, account, plan, cancel, task, outcome, created_at,
	(SELECT COUNT(*) FROM benchmark_round r WHERE r.benchmark_id = benchmark.id), ` + core.LifeColumns

func scan(r core.Scanner) (Run, error) {
	var run Run
	var plan string
	var at, created int64
	fields := []any{&run.ID, &run.Project, &run.ClusterID, &run.Cluster, &run.Account, &plan, &run.Cancel, &run.Task,
		&run.Outcome, &created, &run.Round}
	if err := r.Scan(append(fields, run.Fields(&at)...)...); err != nil {
		return run, err
	}
	run.PhaseAt, run.CreatedAt = core.Instant(at), core.Instant(created)
	if err := json.Unmarshal([]byte(plan), &run.Plan); err != nil {
		return run, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return run, nil
}

// Add stores a run that is to begin.
func Add(ctx context.Context, tx *core.Tx, r Run) error {
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO benchmark (id, project, cluster_id, cluster, account, plan, created_at, phase, phase_at, wake_at)
		VALUES ($1, $2, $3, $4, $5, $6, now_ms(), $7, now_ms(), now_ms())`,
		r.ID, r.Project, r.ClusterID, r.Cluster, r.Account, string(plan), string(core.Pending))
	if err != nil {
		return fmt.Errorf("add run: %w", err)
	}
	return nil
}

// Get finds a run by its ID.
func Get(ctx context.Context, tx *core.Tx, id string) (Run, error) {
	r, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM benchmark WHERE id = $1`, id)
	if err != nil {
		return r, fmt.Errorf("run %s: %w", id, err)
	}
	return r, nil
}

// WantEnd asks that a run ends, and wakes it.
func WantEnd(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE benchmark SET cancel = 1, `+core.Woken+` WHERE id = $1 AND phase <> 'ended'`, id)
	if err != nil {
		return fmt.Errorf("cancel run %s: %w", id, err)
	}
	return nil
}

// Begin notes the task of the round that begins.
func Begin(ctx context.Context, tx *core.Tx, r Run, task string) error {
	if _, err := tx.Exec(ctx, `UPDATE benchmark SET task = $2 WHERE id = $1`, r.ID, task); err != nil {
		return fmt.Errorf("begin a round of run %s: %w", r.ID, err)
	}
	return nil
}

// End notes how a run has ended, with the phase that the same transaction settles.
func End(ctx context.Context, tx *core.Tx, r Run, how Outcome) error {
	_, err := tx.Exec(ctx, `UPDATE benchmark SET outcome = $2, task = '', phase = 'ended', phase_at = now_ms() WHERE id = $1`,
		r.ID, string(how))
	if err != nil {
		return fmt.Errorf("end run %s: %w", r.ID, err)
	}
	return nil
}

// State is what became of a step in a round.
type State string

// The states. Values count of steps that are ok.
const (
	StepOK       State = "ok"
	StepInvalid  State = "invalid"   // it ran, and its output failed a check
	StepFailed   State = "failed"    // its command failed
	StepTimedOut State = "timed-out" // it was ended at its limit
	StepLost     State = "lost"      // its job ended while it ran
	StepSkipped  State = "skipped"   // what it needs is not there
	StepNotRun   State = "not-run"   // its job ended before it began
)

// Round is a round that has ended.
type Round struct {
	Number int
	State  string // as its job ended: a protocol.TaskOutcome
	Why    string
	Nodes  map[string]string // by name, the machine
	Began  time.Time
	Ended  time.Time
	Steps  []Step
}

// Step is a step of a round.
type Step struct {
	Number  int // in the plan's steps
	State   State
	Why     string
	Took    time.Duration
	Output  recipe.Output // read by OutputOf alone
	Samples []recipe.Sample
}

// SaveRound notes a round that has ended: the next one may begin.
func SaveRound(ctx context.Context, tx *core.Tx, r Run, o Round) error {
	nodes, err := json.Marshal(o.Nodes)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO benchmark_round (benchmark_id, number, state, why, nodes, began, ended)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, r.ID, o.Number, o.State, o.Why, string(nodes), o.Began.UnixMilli(),
		o.Ended.UnixMilli())
	for _, s := range o.Steps {
		if err == nil {
			err = saveStep(ctx, tx, r.ID, o.Number, s)
		}
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE benchmark SET task = '' WHERE id = $1`, r.ID)
	}
	if err != nil {
		return fmt.Errorf("round %d of run %s: %w", o.Number, r.ID, err)
	}
	return nil
}

func saveStep(ctx context.Context, tx *core.Tx, run string, round int, s Step) error {
	output, err := pack(s.Output)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO benchmark_step (benchmark_id, round, number, state, why, took, output)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, run, round, s.Number, string(s.State), s.Why, s.Took.Microseconds(), output)
	for place, v := range s.Samples {
		if err != nil {
			break
		}
		var labels []byte
		if labels, err = json.Marshal(v.Labels); err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO benchmark_sample
				(benchmark_id, round, step, place, quantity, labels, node, value, unit, better)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, run, round, s.Number, place, v.Quantity, string(labels), v.Node,
				v.Value, v.Unit, v.Better)
		}
	}
	return err
}

// pack is what a step has written, as a row keeps it.
func pack(o recipe.Output) (string, error) {
	if len(o) == 0 {
		return "", nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(o); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// unpack reads what pack made.
func unpack(text string) (o recipe.Output, err error) {
	if text == "" {
		return nil, nil
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	err = json.NewDecoder(io.LimitReader(z, 1<<27)).Decode(&o)
	return o, err
}

// Rounds are the rounds of a run that have ended, with their steps and samples and without outputs.
func Rounds(ctx context.Context, tx *core.Tx, run string) ([]Round, error) {
	rounds, err := core.List(ctx, tx, scanRound, `SELECT number, state, why, nodes, began, ended FROM benchmark_round
		WHERE benchmark_id = $1 ORDER BY number`, run)
	if err != nil {
		return nil, fmt.Errorf("rounds of run %s: %w", run, err)
	}
	type step struct {
		round int
		Step
	}
	steps, err := core.List(ctx, tx, func(r core.Scanner) (s step, err error) {
		var took int64
		err = r.Scan(&s.round, &s.Number, &s.State, &s.Why, &took)
		s.Took = time.Duration(took) * time.Microsecond
		return s, err
	}, `SELECT round, number, state, why, took FROM benchmark_step WHERE benchmark_id = $1 ORDER BY round, number`, run)
	if err != nil {
		return nil, fmt.Errorf("steps of run %s: %w", run, err)
	}
	type sample struct {
		round, step int
		recipe.Sample
	}
	samples, err := core.List(ctx, tx, func(r core.Scanner) (s sample, err error) {
		var labels string
		if err = r.Scan(&s.round, &s.step, &s.Quantity, &labels, &s.Node, &s.Value, &s.Unit, &s.Better); err == nil {
			err = json.Unmarshal([]byte(labels), &s.Labels)
		}
		return s, err
	}, `SELECT round, step, quantity, labels, node, value, unit, better FROM benchmark_sample
		WHERE benchmark_id = $1 ORDER BY round, step, place`, run)
	if err != nil {
		return nil, fmt.Errorf("samples of run %s: %w", run, err)
	}
	of := map[[2]int][]recipe.Sample{}
	for _, s := range samples {
		of[[2]int{s.round, s.step}] = append(of[[2]int{s.round, s.step}], s.Sample)
	}
	by := map[int]*Round{}
	for i := range rounds {
		by[rounds[i].Number] = &rounds[i]
	}
	for _, s := range steps {
		if r := by[s.round]; r != nil {
			s.Samples = of[[2]int{s.round, s.Number}]
			r.Steps = append(r.Steps, s.Step)
		}
	}
	return rounds, nil
}

func scanRound(r core.Scanner) (o Round, err error) {
	var nodes string
	var began, ended int64
	if err = r.Scan(&o.Number, &o.State, &o.Why, &nodes, &began, &ended); err == nil {
		err = json.Unmarshal([]byte(nodes), &o.Nodes)
	}
	o.Began, o.Ended = core.Instant(began), core.Instant(ended)
	return o, err
}

// Tally counts the steps of all rounds of a run, and those that are not ok.
func Tally(ctx context.Context, tx *core.Tx, run string) (steps, notOK int, err error) {
	err = tx.Row(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE state WHEN 'ok' THEN 0 ELSE 1 END), 0) FROM benchmark_step
		WHERE benchmark_id = $1`, run).Scan(&steps, &notOK)
	if err != nil {
		return 0, 0, fmt.Errorf("count the steps of run %s: %w", run, err)
	}
	return steps, notOK, nil
}

// OutputOf is what a step has written; nil: nothing was kept.
func OutputOf(ctx context.Context, tx *core.Tx, run string, round, step int) (recipe.Output, error) {
	scan := func(r core.Scanner) (text string, err error) { return text, r.Scan(&text) }
	text, err := core.One(ctx, tx, scan, `SELECT output FROM benchmark_step WHERE benchmark_id = $1 AND round = $2 AND number = $3`,
		run, round, step)
	var o recipe.Output
	if err == nil {
		o, err = unpack(text)
	}
	if err != nil {
		return nil, fmt.Errorf("output of step %d in round %d of run %s: %w", step, round, run, err)
	}
	return o, nil
}
