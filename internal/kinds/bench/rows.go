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
	"maps"
	"slices"
	"strings"
	"time"

	"muster/internal/bench/recipe"
	"muster/internal/bench/round"
	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
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
	ClusterID string // of a registered one, what AtExternal makes
	Cluster   string // its name
	Account   string // whom it runs as, and who asked for it
	Plan      Plan
	Cancel    bool   // somebody wants it to end
	Task      string // of the round that is under way; "": none is
	Round     int    // rounds that have ended
	Broken    int    // of those, rounds that do not count, here or in the peer
	Peer      string // the run whose rounds are done in turns with these; "": there is none
	Kept      int64  // bytes, about, of its plan, outputs and values
	Outcome   Outcome
	CreatedAt time.Time

	// Of one that is repeated; others begin at once.
	Every time.Duration // 0: it is not
	Begin time.Time     // not before
}

// ExternalClass is the class of nodes that a registered cluster's are, and begins its ClusterIDs. It is stored.
func ExternalClass(name string) string { return "centre:" + name }

// AtExternal is the ClusterID of a registered cluster for a project: what one measures there, repeats there and accepts is not
// another's.
func AtExternal(name, project string) string { return ExternalClass(name) + ":" + project }

// External is the name of the registered cluster that it runs on; false: it runs on one of Muster's own.
func (r Run) External() (name string, is bool) {
	return strings.CutPrefix(strings.TrimSuffix(r.ClusterID, ":"+r.Project), ExternalClass(""))
}

// mostRepeated is how many rounds of a run are done again.
const mostRepeated = 3

// All is how many rounds there are to be. One that was disturbed, or whose job was lost or failed, is done again, on whatever
// nodes there are then; of runs in turns, both do it again.
func (r Run) All() int { return r.Plan.Rounds + min(r.Broken, mostRepeated) }

// broken is a round whose job did not come to its end, or that was disturbed: what it has measured is kept, and counts nowhere.
const broken = `(r.state IN ('lost', 'failed') OR r.disturbed <> '')`

const columns = `id, project, cluster_id, cluster, account, plan, cancel, task, outcome, created_at, kept, peer, begin_at, every,
	(SELECT COUNT(*) FROM benchmark_round r WHERE r.benchmark_id = benchmark.id),
	(SELECT COUNT(DISTINCT number) FROM benchmark_round r WHERE r.benchmark_id IN (benchmark.id, benchmark.peer)
		AND ` + broken + `), ` + core.LifeColumns

func scan(r core.Scanner) (run Run, err error) {
	fields := []any{&run.ID, &run.Project, &run.ClusterID, &run.Cluster, &run.Account, core.JSON(&run.Plan), &run.Cancel,
		&run.Task, &run.Outcome, core.Time(&run.CreatedAt), &run.Kept, &run.Peer, core.Time(&run.Begin),
		core.Span(&run.Every, time.Millisecond), &run.Round, &run.Broken}
	err = r.Scan(append(fields, run.Fields()...)...)
	return run, wrap.Errorf(err, "run %s", run.ID)
}

// Of one project's runs are kept: as many, and so many bytes of those that have ended. One run keeps no more than mostKept.
const (
	mostRuns    = 1000
	mostOfEnded = 64 << 20
	mostKept    = 4 << 20
)

// Add stores a run that is to begin, and forgets the oldest that have ended where the project keeps more than it may.
func Add(ctx context.Context, tx *core.Tx, r Run) error {
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return err
	}
	begin := int64(0)
	if r.Every > 0 {
		begin = r.Begin.UnixMilli()
	}
	_, err = tx.Exec(ctx, `INSERT INTO benchmark
		(id, project, cluster_id, cluster, account, suite, plan, kept, peer, created_at, phase, phase_at, wake_at, begin_at, every)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now_ms(), $10, now_ms(), now_ms(), $11, $12)`, r.ID, r.Project, r.ClusterID,
		r.Cluster, r.Account, r.Plan.Suite.Name, string(plan), len(plan), r.Peer, string(core.Pending), begin,
		r.Every.Milliseconds())
	if err != nil {
		return fmt.Errorf("add run: %w", err)
	}
	_, err = tx.Exec(ctx, `DELETE FROM benchmark WHERE id IN (
		SELECT id FROM (SELECT id, row_number() OVER newest AS place, sum(kept) OVER newest AS bytes
			FROM benchmark WHERE project = $1 AND phase = 'ended' WINDOW newest AS (ORDER BY created_at DESC, id DESC)) AS ended
		WHERE place > $2 OR bytes > $3)`, r.Project, mostRuns, mostOfEnded)
	return wrap.Errorf(err, "forget old runs of project %s", r.Project)
}

// Unfinished counts those of a project that have not ended: once, and repeated.
func Unfinished(ctx context.Context, tx *core.Tx, project string) (once, repeated int, err error) {
	err = tx.Row(ctx, `SELECT COALESCE(SUM(CASE every WHEN 0 THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE every WHEN 0 THEN 0 ELSE 1 END), 0)
		FROM benchmark WHERE project = $1 AND phase <> 'ended'`, project).Scan(&once, &repeated)
	return once, repeated, wrap.Errorf(err, "count runs of project %s", project)
}

// EndWatch has the repeated run of a suite on a cluster end, if there is one, and no other follow it.
func EndWatch(ctx context.Context, tx *core.Tx, cluster, suite string) error {
	_, err := tx.Exec(ctx, `UPDATE benchmark SET cancel = 1, every = 0, `+core.Woken+` WHERE cluster_id = $1 AND suite = $2
		AND every > 0 AND phase <> 'ended'`, cluster, suite)
	return wrap.Errorf(err, "end the watch of suite %s on cluster %s", suite, cluster)
}

// Postpone has a run that has not begun begin later.
func Postpone(ctx context.Context, tx *core.Tx, r Run, to time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE benchmark SET begin_at = $2 WHERE id = $1`, r.ID, to.UnixMilli())
	return wrap.Errorf(err, "postpone run %s", r.ID)
}

// Get finds a run by its ID.
func Get(ctx context.Context, tx *core.Tx, id string) (Run, error) {
	r, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM benchmark WHERE id = $1`, id)
	return r, wrap.Errorf(err, "run %s", id)
}

// Next is when a run that is repeated begins again: the first time after now.
func (r Run) Next(now time.Time) time.Time {
	return r.Begin.Add(r.Every * (max(now.Sub(r.Begin), 0)/r.Every + 1))
}

// WantEnd asks that a run ends, and with it the one that is done in turns with it, and wakes them.
func WantEnd(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE benchmark SET cancel = 1, `+core.Woken+` WHERE (id = $1 OR peer = $1) AND phase <> 'ended'`, id)
	return wrap.Errorf(err, "cancel run %s", id)
}

// End notes how a run has ended, with the phase that the same transaction settles.
func End(ctx context.Context, tx *core.Tx, r Run, how Outcome) error {
	_, err := tx.Exec(ctx, `UPDATE benchmark SET outcome = $2, task = '', phase = 'ended', phase_at = now_ms() WHERE id = $1`,
		r.ID, string(how))
	if err != nil {
		return fmt.Errorf("end run %s: %w", r.ID, err)
	}
	return Leave(ctx, tx, r)
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

// Broken says that the round's job did not come to its end, or that it was disturbed: what it has measured counts nowhere.
func (r Round) Broken() bool {
	return r.State == string(protocol.TaskLost) || r.State == string(protocol.TaskFailed) || r.Disturbed != ""
}

// Looks are what the nodes of a round said of themselves before its steps and after them.
type Looks struct {
	Before round.Look `json:"before,omitempty"`
	After  round.Look `json:"after,omitempty"`
}

// mostLooks is how many bytes are kept of what the nodes of a round have said of themselves, as JSON: all that the looks of a
// job's script can be, which its programs can write, too.
const mostLooks = 4 << 20

// first are those of the first nodes by name: as many as fit into so many bytes of JSON.
func (l Looks) first(most int) Looks {
	kept := Looks{Before: round.Look{}, After: round.Look{}}
	for _, name := range slices.Sorted(maps.Keys(l.Before)) {
		text, err := json.Marshal([]map[string]string{l.Before[name], l.After[name]})
		if most -= len(name) + len(text); err != nil || most < 0 {
			break
		}
		kept.Before[name] = l.Before[name]
		if after, looked := l.After[name]; looked {
			kept.After[name] = after
		}
	}
	return kept
}

// Round is a round that has ended.
type Round struct {
	Number int
	State  string // as its job ended: a protocol.TaskOutcome
	Why    string
	Nodes  map[string]string // by name, the machine
	Began  time.Time
	Ended  time.Time
	Steps  []Step
	Looks  Looks // read by LooksOf alone
	looks  string

	Disturbed string // by what, from outside; "": nothing is known
}

// Step is a step of a round.
type Step struct {
	Number  int // in the plan's steps
	State   State
	Why     string
	Took    time.Duration
	Output  recipe.Output // read by OutputOf alone
	output  string
	Samples []recipe.Sample
}

// Pack makes ready what SaveRound writes of outputs and looks: which takes long where they are large, and is best done before a
// transaction begins. A second call does nothing.
func (o *Round) Pack() (err error) {
	if o.looks == "" && o.Looks.Before != nil {
		o.looks, err = pack(o.Looks.first(mostLooks))
	}
	for i := range o.Steps {
		if s := &o.Steps[i]; err == nil && s.output == "" && len(s.Output) > 0 {
			s.output, err = pack(s.Output)
		}
	}
	return err
}

// SaveRound notes a round that has ended: the next one may begin. Beyond what a run may keep, no outputs are kept, and then no
// values, and not on which nodes they were measured.
func SaveRound(ctx context.Context, tx *core.Tx, r Run, o Round) error {
	nodes, err := json.Marshal(o.Nodes)
	if err != nil {
		return err
	}
	if r.Kept+int64(len(nodes)) > mostKept {
		nodes = []byte("{}")
	}
	kept := r.Kept + int64(len(nodes)+len(o.Why)+len(o.Disturbed)+rowBytes)
	if err := o.Pack(); err != nil {
		return err
	}
	looks := o.looks
	if kept+int64(len(looks)) > mostKept {
		looks = ""
	}
	kept += int64(len(looks))
	_, err = tx.Exec(ctx, `INSERT INTO benchmark_round (benchmark_id, number, state, why, nodes, began, ended, looks, disturbed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, r.ID, o.Number, o.State, o.Why, string(nodes), o.Began.UnixMilli(),
		o.Ended.UnixMilli(), looks, o.Disturbed)
	for _, s := range o.Steps {
		if err == nil {
			err = saveStep(ctx, tx, r.ID, o.Number, s, &kept)
		}
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE benchmark SET task = '', kept = $2 WHERE id = $1`, r.ID, kept)
	}
	if err != nil {
		return fmt.Errorf("round %d of run %s: %w", o.Number, r.ID, err)
	}
	return Leave(ctx, tx, r)
}

const rowBytes = 100 // of a row beside its texts, about

func saveStep(ctx context.Context, tx *core.Tx, run string, round int, s Step, kept *int64) error {
	output := s.output
	labels := make([]string, len(s.Samples))
	values := int64(0)
	for i, v := range s.Samples {
		text, err := json.Marshal(v.Labels)
		if err != nil {
			return err
		}
		labels[i] = string(text)
		values += int64(rowBytes + len(text) + len(v.Node))
	}
	if *kept+values > mostKept {
		s.State, s.Why, s.Samples, values = StepInvalid, "the run has more values than are kept", nil, 0
	}
	if *kept+values+int64(len(output)) > mostKept {
		output = ""
	}
	*kept += values + int64(len(output)+len(s.Why)+rowBytes)
	_, err := tx.Exec(ctx, `INSERT INTO benchmark_step (benchmark_id, round, number, state, why, took, output)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, run, round, s.Number, string(s.State), s.Why, s.Took.Microseconds(), output)
	for place, v := range s.Samples {
		if err != nil {
			break
		}
		_, err = tx.Exec(ctx, `INSERT INTO benchmark_sample
			(benchmark_id, round, step, place, quantity, labels, node, value, unit, better)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, run, round, s.Number, place, v.Quantity, labels[place], v.Node,
			v.Value, v.Unit, v.Better)
	}
	return err
}

// pack is a value as a row keeps it.
func pack(v any) (string, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(v); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// unpack reads what pack made; from "" it reads nothing.
func unpack(text string, into any) error {
	if text == "" {
		return nil
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	defer z.Close()
	return json.NewDecoder(io.LimitReader(z, 1<<27)).Decode(into)
}

// RoundsOf are the rounds of a run that have ended, without their steps.
func RoundsOf(ctx context.Context, tx *core.Tx, run string) ([]Round, error) {
	rounds, err := core.List(ctx, tx, scanRound, `SELECT number, state, why, nodes, began, ended, disturbed FROM benchmark_round
		WHERE benchmark_id = $1 ORDER BY number`, run)
	return rounds, wrap.Errorf(err, "rounds of run %s", run)
}

// Rounds are the rounds of a run that have ended, with their steps and samples, without outputs and looks.
func Rounds(ctx context.Context, tx *core.Tx, run string) ([]Round, error) {
	rounds, err := RoundsOf(ctx, tx, run)
	if err != nil {
		return nil, err
	}
	type step struct {
		round int
		Step
	}
	steps, err := core.List(ctx, tx, core.Fields(func(s *step) []any {
		return []any{&s.round, &s.Number, &s.State, &s.Why, core.Span(&s.Took, time.Microsecond)}
	}), `SELECT round, number, state, why, took FROM benchmark_step WHERE benchmark_id = $1 ORDER BY round, number`, run)
	if err != nil {
		return nil, fmt.Errorf("steps of run %s: %w", run, err)
	}
	type sample struct {
		round, step int
		recipe.Sample
	}
	known := map[string]map[string]string{} // many samples have the same labels
	samples, err := core.List(ctx, tx, func(r core.Scanner) (s sample, err error) {
		var text string
		if err = r.Scan(&s.round, &s.step, &s.Quantity, &text, &s.Node, &s.Value, &s.Unit, &s.Better); err != nil {
			return s, err
		}
		labels, seen := known[text]
		if !seen {
			err = json.Unmarshal([]byte(text), &labels)
			known[text] = labels
		}
		s.Labels = labels
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
	err = r.Scan(&o.Number, &o.State, &o.Why, core.JSON(&o.Nodes), core.Time(&o.Began), core.Time(&o.Ended), &o.Disturbed)
	return o, err
}

// Tally counts the steps of a run's rounds by their states, those of broken rounds aside. why is what is said of the first that
// is neither ok nor skipped, or else of the last broken round, or else of the first that is skipped.
func Tally(ctx context.Context, tx *core.Tx, run string) (count map[State]int, why string, err error) {
	const from = ` FROM benchmark_step s JOIN benchmark_round r ON r.benchmark_id = s.benchmark_id AND r.number = s.round
		WHERE s.benchmark_id = $1 AND NOT ` + broken
	type one struct {
		state State
		n     int
	}
	all, err := core.List(ctx, tx, core.Fields(func(o *one) []any { return []any{&o.state, &o.n} }),
		`SELECT s.state, COUNT(*)`+from+` GROUP BY s.state`, run)
	if err == nil {
		err = tx.Row(ctx, `SELECT COALESCE((SELECT s.why`+from+` AND s.state NOT IN ('ok', 'skipped')
			ORDER BY s.round, s.number LIMIT 1), (SELECT CASE r.disturbed WHEN '' THEN r.why ELSE r.disturbed END
			FROM benchmark_round r WHERE r.benchmark_id = $1 AND `+broken+` ORDER BY r.number DESC LIMIT 1),
			(SELECT s.why`+from+` AND s.state = 'skipped' ORDER BY s.round, s.number LIMIT 1), '')`, run).Scan(&why)
	}
	if err != nil {
		return nil, "", fmt.Errorf("count the steps of run %s: %w", run, err)
	}
	count = map[State]int{}
	for _, o := range all {
		count[o.state] = o.n
	}
	return count, why, nil
}

// Problems are the first steps of a run that are not ok, in their rounds, without samples. Those of broken rounds are among them;
// those that are skipped come last, each once.
func Problems(ctx context.Context, tx *core.Tx, run string, most int) ([]Round, error) {
	type found struct {
		Round
		step Step
	}
	all, err := core.List(ctx, tx, func(r core.Scanner) (f found, err error) {
		var took int64
		err = r.Scan(&f.Number, &f.State, &f.Disturbed, &f.step.Number, &f.step.State, &f.step.Why, &took)
		f.step.Took = time.Duration(took) * time.Microsecond
		return f, err
	}, `SELECT r.number, r.state, r.disturbed, s.number, s.state, s.why, s.took FROM benchmark_step s
		JOIN benchmark_round r ON r.benchmark_id = s.benchmark_id AND r.number = s.round
		WHERE s.benchmark_id = $1 AND s.state <> 'ok' AND NOT (s.state = 'skipped' AND EXISTS (SELECT 1 FROM benchmark_step e
			WHERE e.benchmark_id = s.benchmark_id AND e.number = s.number AND e.state = 'skipped' AND e.round < s.round))
		ORDER BY CASE s.state WHEN 'skipped' THEN 1 ELSE 0 END, s.round, s.number LIMIT $2`, run, most)
	if err != nil {
		return nil, fmt.Errorf("problems of run %s: %w", run, err)
	}
	rounds := make([]Round, len(all))
	for i, f := range all {
		f.Steps = []Step{f.step}
		rounds[i] = f.Round
	}
	return rounds, nil
}

// Took is how long a run's rounds have taken together that ended well, and how many those were.
func Took(ctx context.Context, tx *core.Tx, run string) (all time.Duration, n int, err error) {
	err = tx.Row(ctx, `SELECT CAST(SUM(ended - began) AS BIGINT), COUNT(*) FROM benchmark_round
		WHERE benchmark_id = $1 AND state = 'ok'`, run).Scan(core.Span(&all, time.Millisecond), &n)
	return all, n, wrap.Errorf(err, "time of run %s", run)
}

// OutputOf is what a step has written; nil: nothing was kept.
func OutputOf(ctx context.Context, tx *core.Tx, run string, round, step int) (o recipe.Output, err error) {
	err = kept(ctx, tx, &o, `SELECT output FROM benchmark_step WHERE benchmark_id = $1 AND round = $2 AND number = $3`, run, round,
		step)
	return o, wrap.Errorf(err, "output of step %d in round %d of run %s", step, round, run)
}

// LooksOf is what the nodes of a round said of themselves; the zero value: nothing was kept.
func LooksOf(ctx context.Context, tx *core.Tx, run string, round int) (l Looks, err error) {
	err = kept(ctx, tx, &l, `SELECT looks FROM benchmark_round WHERE benchmark_id = $1 AND number = $2`, run, round)
	return l, wrap.Errorf(err, "nodes in round %d of run %s", round, run)
}

// kept reads what pack made, where a query finds it.
func kept(ctx context.Context, tx *core.Tx, into any, query string, args ...any) error {
	text, err := core.One(ctx, tx, core.Value[string], query, args...)
	if err != nil {
		return err
	}
	return unpack(text, into)
}
