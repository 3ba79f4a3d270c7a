// Package task keeps programs that were run on clusters from outside, with what their heads said of them and their output: those
// of users, and those that Muster runs as root on heads.
//
// What enters: requests from the API and from the lives of clusters, reports and output of heads. What leaves: rows.
package task

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Origin is what has asked for a task.
type Origin string

// The origins. What is not a user's is the system's: it runs as root on the head, waits for no other task, counts for no bound of
// users, and is cancelled only by what asked for it.
const (
	Asked Origin = ""      // a user, whom it runs as
	Pause Origin = "pause" // a pause of its cluster: the image's hook
)

// Root is the account of the system's tasks.
const Root = "root"

// Task is a program that is run on a cluster from outside. Its row ends with the cluster's.
type Task struct {
	core.Life
	ID        string
	Cluster   string // its ID
	Origin    Origin
	Account   string // whom it runs as, and, of a user's, who asked for it
	Work      Work
	Cancel    bool  // somebody wants it to end
	Boot      int64 // of the head that was told of it first; 0: none yet
	Said      Said
	Outcome   protocol.TaskOutcome // once it has ended
	Kept      int64                // bytes of output that came
	CreatedAt time.Time
}

// Work is what a task runs.
type Work struct {
	Command []string `json:"command,omitempty"` // started once a rank; or
	Script  string   `json:"script,omitempty"`  // started once, on the first node
	Queue   string   `json:"queue,omitempty"`
	Nodes   int      `json:"nodes,omitempty"`
	On      []string `json:"on,omitempty"`
	Ranks   int      `json:"ranks,omitempty"`
	Whole   bool     `json:"whole,omitempty"`

	Reservation string        `json:"reservation,omitempty"` // as the cluster's scheduler calls it
	Limit       time.Duration `json:"limit"`
}

// Said is what a head said of a task last.
type Said struct {
	Stage   protocol.TaskStage    `json:"stage,omitempty"`
	Outcome protocol.TaskOutcome  `json:"outcome,omitempty"`
	Exit    *int                  `json:"exit,omitempty"`
	Text    string                `json:"text,omitempty"`
	Job     string                `json:"job,omitempty"`
	Nodes   []string              `json:"nodes,omitempty"`
	Began   time.Time             `json:"began,omitzero"`
	Ended   time.Time             `json:"ended,omitzero"`
	Bytes   int64                 `json:"bytes,omitempty"`
	Samples []protocol.TaskSample `json:"samples,omitempty"`
}

// What a cluster keeps of tasks of one origin that have ended: rows, bytes of their output, and bytes of what they ran and of
// what was said of them.
const (
	mostTasksKept  = 1000
	mostOutputKept = 64 << 20
	mostTextKept   = 16 << 20
)

const columns = `id, cluster_id, origin, account, work, cancel, boot, said, outcome, kept, created_at, ` + core.LifeColumns

func scan(r core.Scanner) (t Task, err error) {
	fields := []any{&t.ID, &t.Cluster, &t.Origin, &t.Account, core.JSON(&t.Work), &t.Cancel, &t.Boot, core.JSON(&t.Said),
		&t.Outcome, &t.Kept, core.Time(&t.CreatedAt)}
	err = r.Scan(append(fields, t.Fields()...)...)
	return t, wrap.Errorf(err, "task %s", t.ID)
}

// System says that it is not a user's.
func (t Task) System() bool { return t.Origin != Asked }

// Add stores a task that is to run.
func Add(ctx context.Context, tx *core.Tx, t Task) error {
	_, err := tx.Exec(ctx, `INSERT INTO task (id, cluster_id, origin, account, work, created_at, phase, phase_at, wake_at)
		VALUES ($1, $2, $3, $4, $5, now_ms(), $6, now_ms(), now_ms())`,
		t.ID, t.Cluster, string(t.Origin), t.Account, core.JSON(t.Work), string(core.Pending))
	return wrap.Errorf(err, "add task")
}

// trim forgets the oldest that have ended: first their output, at last all of them.
func trim(ctx context.Context, tx *core.Tx, cluster string) error {
	const ended = `(SELECT id, row_number() OVER newest AS place, sum(kept) OVER newest AS output,
			sum(octet_length(work) + octet_length(said)) OVER newest AS texts
		FROM task WHERE cluster_id = $1 AND phase = 'ended'
		WINDOW newest AS (PARTITION BY origin ORDER BY created_at DESC, id DESC)) AS ended`
	tooMany := fmt.Sprintf(`place > %d OR texts > %d`, mostTasksKept, mostTextKept)
	for _, step := range []string{
		`UPDATE task SET kept = 0 WHERE kept > 0 AND id IN (SELECT id FROM ` + ended + ` WHERE ` + tooMany +
			fmt.Sprintf(` OR output > %d)`, mostOutputKept),
		`DELETE FROM task_output WHERE task_id IN (SELECT id FROM task WHERE cluster_id = $1 AND phase = 'ended' AND kept = 0)`,
		`DELETE FROM task WHERE id IN (SELECT id FROM ` + ended + ` WHERE ` + tooMany + `)`,
	} {
		if _, err := tx.Exec(ctx, step, cluster); err != nil {
			return fmt.Errorf("forget old tasks of cluster %s: %w", cluster, err)
		}
	}
	return nil
}

// Remove forgets all tasks of a cluster.
func Remove(ctx context.Context, tx *core.Tx, cluster string) error {
	for _, of := range []string{
		`DELETE FROM task_output WHERE task_id IN (SELECT id FROM task WHERE cluster_id = $1)`,
		`DELETE FROM task WHERE cluster_id = $1`,
	} {
		if _, err := tx.Exec(ctx, of, cluster); err != nil {
			return fmt.Errorf("forget the tasks of cluster %s: %w", cluster, err)
		}
	}
	return nil
}

// Get finds a task by its ID.
func Get(ctx context.Context, tx *core.Tx, id string) (Task, error) {
	t, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM task WHERE id = $1`, id)
	return t, wrap.Errorf(err, "task %s", id)
}

// List lists those of a cluster, the newest first.
func List(ctx context.Context, tx *core.Tx, cluster string) ([]Task, error) {
	tasks, err := core.List(ctx, tx, scan, `SELECT `+columns+` FROM task
		WHERE cluster_id = $1 ORDER BY created_at DESC, id DESC`, cluster)
	return tasks, wrap.Errorf(err, "list tasks of cluster %s", cluster)
}

// OnHead lists those of a cluster that its head was told of and whose end is not known, the oldest first.
func OnHead(ctx context.Context, tx *core.Tx, cluster string) ([]Task, error) {
	tasks, err := core.List(ctx, tx, scan, `SELECT `+columns+` FROM task
		WHERE cluster_id = $1 AND phase IN ('queued', 'running') ORDER BY created_at, id`, cluster)
	return tasks, wrap.Errorf(err, "list tasks of cluster %s", cluster)
}

// Hook is the task of a cluster's pause that has begun then, or later; the zero value: there is none yet.
func Hook(ctx context.Context, tx *core.Tx, cluster string, then time.Time) (Task, error) {
	t, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM task
		WHERE cluster_id = $1 AND origin = 'pause' AND created_at >= $2 ORDER BY created_at DESC, id DESC LIMIT 1`,
		cluster, then.UnixMilli())
	if errors.Is(err, core.ErrNotFound) {
		return Task{}, nil
	}
	return t, wrap.Errorf(err, "hook of cluster %s", cluster)
}

// Unfinished counts those of a cluster's users that have not ended.
func Unfinished(ctx context.Context, tx *core.Tx, cluster string) (n int, err error) {
	err = tx.Row(ctx, `SELECT COUNT(*) FROM task WHERE cluster_id = $1 AND origin = '' AND phase <> 'ended'`, cluster).Scan(&n)
	return n, wrap.Errorf(err, "count tasks of cluster %s", cluster)
}

// Before counts those of users of the task's cluster that were asked for earlier and have not ended.
func Before(ctx context.Context, tx *core.Tx, t Task) (n int, err error) {
	err = tx.Row(ctx, `SELECT COUNT(*) FROM task WHERE cluster_id = $1 AND origin = '' AND phase <> 'ended'
		AND (created_at, id) < ($2, $3)`,
		t.Cluster, t.CreatedAt.UnixMilli(), t.ID).Scan(&n)
	return n, wrap.Errorf(err, "count tasks before %s", t.ID)
}

// Tell notes that a head of this boot is told of the task.
func Tell(ctx context.Context, tx *core.Tx, t Task, boot int64) error {
	if _, err := tx.Exec(ctx, `UPDATE task SET boot = $2 WHERE id = $1`, t.ID, boot); err != nil {
		return fmt.Errorf("tell of task %s: %w", t.ID, err)
	}
	return cluster.TellHead(ctx, tx, t.Cluster)
}

// End notes how a task has ended, with the phase that the same transaction settles, and what was said of it. It forgets the
// oldest that have ended where the cluster keeps more than it may.
func End(ctx context.Context, tx *core.Tx, t Task, said Said) error {
	if _, err := tx.Exec(ctx, `UPDATE task SET outcome = $2, said = $3, phase = $4, phase_at = now_ms() WHERE id = $1`,
		t.ID, string(said.Outcome), core.JSON(said), string(Ended)); err != nil {
		return fmt.Errorf("end task %s: %w", t.ID, err)
	}
	if err := trim(ctx, tx, t.Cluster); err != nil {
		return err
	}
	return cluster.TellHead(ctx, tx, t.Cluster)
}

// Cancel asks for a task's end and wakes it.
func Cancel(ctx context.Context, tx *core.Tx, t Task) error {
	if _, err := tx.Exec(ctx, `UPDATE task SET cancel = 1, `+core.Woken+` WHERE id = $1`, t.ID); err != nil {
		return fmt.Errorf("cancel task %s: %w", t.ID, err)
	}
	return cluster.TellHead(ctx, tx, t.Cluster)
}

// Save writes what a head says of a task of its cluster, and wakes it, if that is news. A task that has ended stays as it is.
func Save(ctx context.Context, tx *core.Tx, cluster, id string, said Said) error {
	_, err := tx.Exec(ctx, `UPDATE task SET said = $3, `+core.Woken+`
		WHERE id = $2 AND cluster_id = $1 AND phase IN ('queued', 'running') AND said <> $3`, cluster, id, core.JSON(said))
	return wrap.Errorf(err, "save task %s", id)
}

// smallPiece is how many bytes two pieces may have together that share a row.
const smallPiece = 4 << 10

// KeepOutput adds a piece to what is kept of a task's output, if it is the next one and the task has not ended, up to
// protocol.MostTaskOutput. It returns how many bytes are kept now.
func KeepOutput(ctx context.Context, tx *core.Tx, cluster, id string, start int64, piece []byte) (kept int64, err error) {
	// The row is held until the transaction ends: of two calls with the same piece, one sees the other.
	if _, err := tx.Exec(ctx, `UPDATE task SET kept = kept WHERE id = $1`, id); err != nil {
		return 0, fmt.Errorf("output of task %s: %w", id, err)
	}
	t, err := Get(ctx, tx, id)
	switch {
	case err != nil:
		return 0, err
	case t.Cluster != cluster:
		return 0, fmt.Errorf("task %s: %w", id, core.ErrNotFound)
	}
	piece = piece[:min(int64(len(piece)), max(0, protocol.MostTaskOutput-t.Kept))]
	if start != t.Kept || len(piece) == 0 || !slices.Contains([]core.Phase{Queued, Running}, t.Phase) {
		return t.Kept, nil
	}
	before, at, err := pieceAt(ctx, tx, id, start)
	if err != nil {
		return 0, err
	}
	if len(before) > 0 && len(before)+len(piece) <= smallPiece {
		_, err = tx.Exec(ctx, `UPDATE task_output SET bytes = $3 WHERE task_id = $1 AND start = $2`, id, at,
			base64.StdEncoding.EncodeToString(append(before, piece...)))
	} else {
		_, err = tx.Exec(ctx, `INSERT INTO task_output (task_id, start, bytes) VALUES ($1, $2, $3)`, id, start,
			base64.StdEncoding.EncodeToString(piece))
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE task SET kept = kept + $2 WHERE id = $1`, id, int64(len(piece)))
	}
	return t.Kept + int64(len(piece)), wrap.Errorf(err, "output of task %s", id)
}

// AllOutput is all that is kept of a task's output from a byte on.
func AllOutput(ctx context.Context, tx *core.Tx, id string, from int64) (all []byte, err error) {
	for {
		piece, err := Output(ctx, tx, id, from+int64(len(all)))
		if err != nil || len(piece) == 0 {
			return all, err
		}
		all = append(all, piece...)
	}
}

// Output is what is kept of a task's output from a byte on: the rest of the piece that has it. Nothing: there is no more yet.
func Output(ctx context.Context, tx *core.Tx, id string, from int64) ([]byte, error) {
	bytes, start, err := pieceAt(ctx, tx, id, from)
	return bytes[min(from-start, int64(len(bytes))):], err
}

// pieceAt is the last piece that begins at a byte or before, and where it does. Nothing: there is none.
func pieceAt(ctx context.Context, tx *core.Tx, id string, from int64) (bytes []byte, start int64, err error) {
	type piece struct {
		start int64
		text  string
	}
	scan := core.Fields(func(p *piece) []any { return []any{&p.start, &p.text} })
	pieces, err := core.List(ctx, tx, scan, `SELECT start, bytes FROM task_output
		WHERE task_id = $1 AND start <= $2 ORDER BY start DESC LIMIT 1`, id, from)
	if err != nil {
		return nil, from, fmt.Errorf("output of task %s: %w", id, err)
	}
	if len(pieces) == 0 {
		return nil, from, nil
	}
	if bytes, err = base64.StdEncoding.DecodeString(pieces[0].text); err != nil {
		return nil, from, fmt.Errorf("output of task %s: %w", id, err)
	}
	return bytes, pieces[0].start, nil
}
