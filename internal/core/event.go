package core

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"muster/internal/core/telemetry"
	"muster/internal/kit/printable"
	"muster/internal/kit/wrap"
)

// Event is one thing that happened, in words a user understands. The log is append-only; CLI, console and audit are
// views of it.
type Event struct {
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Type      string    `json:"type"` // cluster.phase, node.phase, machine.phase, cluster.requested …
	Project   string    `json:"project,omitempty"`
	ClusterID string    `json:"cluster_id,omitempty"`
	Cluster   string    `json:"cluster,omitempty"`
	Node      string    `json:"node,omitempty"`
	Machine   string    `json:"machine,omitempty"`
	Phase     Phase     `json:"phase,omitempty"`
	Text      string    `json:"text"`
	Request   string    `json:"request,omitempty"` // whose doing it is; X-Request-Id of the API's answer
}

// Log appends an event; its number and, unless it has one, its time are given at the transaction's end.
func (tx *Tx) Log(e Event) {
	e.Text = printable.Cut(e.Text, MostText)
	tx.events = append(tx.events, e)
}

// MostText is how many bytes of a reason or of an event's text are kept: what a program or a machine says may be of any
// length, and people read it in tables.
const MostText = 2 << 10

// LogPhase appends the event of a new phase, at the instant that stands in the row: so the log, the row and the meter
// tell the same time.
func (tx *Tx) LogPhase(ctx context.Context, c Claim, e Event) error {
	if err := tx.Row(ctx, `SELECT phase_at FROM `+string(c.Kind)+` WHERE id = $1`, c.ID).Scan(Time(&e.At)); err != nil {
		return fmt.Errorf("log a phase of %s %s: %w", c.Kind, c.ID, err)
	}
	tx.Log(e)
	return nil
}

func (tx *Tx) writeEvents(ctx context.Context) error {
	if len(tx.events) == 0 {
		return nil
	}
	var seq int64
	err := tx.Row(ctx, `UPDATE event_head SET seq = seq + $1 WHERE one = 1 RETURNING seq`, len(tx.events)).Scan(&seq)
	if err != nil {
		return fmt.Errorf("number events: %w", err)
	}
	for i, e := range tx.events {
		at := int64(0)
		if !e.At.IsZero() {
			at = e.At.UnixMilli()
		}
		_, err := tx.Exec(ctx, `INSERT INTO event (seq, at, type, project, cluster_id, cluster, node, machine, phase, text,
			request)
			VALUES ($1, CASE WHEN CAST($11 AS BIGINT) = 0 THEN now_ms() ELSE CAST($11 AS BIGINT) END, $2, $3, $4, $5, $6, $7, $8,
			$9, $10)`,
			seq-int64(len(tx.events))+int64(i)+1, e.Type, e.Project, e.ClusterID, e.Cluster, e.Node, e.Machine, string(e.Phase),
			e.Text, telemetry.RequestOf(ctx), at)
		if err != nil {
			return fmt.Errorf("log event: %w", err)
		}
	}
	return nil
}

// EventsOf says which events are meant. Empty fields mean any.
type EventsOf struct {
	Cluster  string   // ID
	Machine  string   // its name
	Projects []string // nil: any, and those of no project
	After    int64    // those with higher numbers
	Before   int64    // those with lower numbers; 0: any
	Newest   bool     // the newest first
	Limit    int
}

// Events lists events in order.
func (tx *Tx) Events(ctx context.Context, of EventsOf) ([]Event, error) {
	if len(of.Projects) > 1 {
		one := of
		return First(of.Projects, of.Limit, func(project string) ([]Event, error) {
			one.Projects = []string{project}
			return tx.Events(ctx, one)
		}, func(a, b Event) int {
			if of.Newest {
				return cmp.Compare(b.Seq, a.Seq)
			}
			return cmp.Compare(a.Seq, b.Seq)
		})
	}
	scan := Fields(func(e *Event) []any {
		return []any{&e.Seq, Time(&e.At), &e.Type, &e.Project, &e.ClusterID, &e.Cluster, &e.Node, &e.Machine, &e.Phase, &e.Text,
			&e.Request}
	})
	var which Where
	which.And(`seq > $?`, of.After)
	which.When(of.Before > 0, `seq < $?`, of.Before)
	which.When(of.Cluster != "", `cluster_id = $?`, of.Cluster)
	which.When(of.Machine != "", `machine = $? AND machine <> ''`, of.Machine)
	which.Among("project", of.Projects)
	order := ` ORDER BY seq LIMIT $?`
	if of.Newest {
		order = ` ORDER BY seq DESC LIMIT $?`
	}
	which.Rest(order, of.Limit)
	events, err := List(ctx, tx, scan,
		`SELECT seq, at, type, project, cluster_id, cluster, node, machine, phase, text, request FROM event`+which.Text,
		which.Args...)
	return events, wrap.Errorf(err, "list events")
}

// forgetAtOnce bounds how long a transaction that forgets events holds up others.
const forgetAtOnce = 20_000

// ForgetEvents drops the oldest events that are older than age, so many at most. A client that follows them has seen them long
// ago.
func (tx *Tx) ForgetEvents(ctx context.Context, age time.Duration) error {
	_, err := tx.Exec(ctx, `DELETE FROM event WHERE at < now_ms() - $1 AND seq <= (SELECT MIN(seq) FROM event) + $2`,
		age.Milliseconds(), forgetAtOnce)
	return wrap.Errorf(err, "forget events")
}

// LastEvent is the number of the newest event.
func (tx *Tx) LastEvent(ctx context.Context) (int64, error) {
	var seq int64
	err := tx.Row(ctx, `SELECT seq FROM event_head`).Scan(&seq)
	return seq, wrap.Errorf(err, "read the event counter")
}

// LastRequest is the last request that asked something of a cluster, and how long ago that was; "" if there was none.
func (tx *Tx) LastRequest(ctx context.Context, cluster string) (id string, ago time.Duration, err error) {
	var ms int64
	err = tx.Row(ctx, `SELECT request, now_ms() - at FROM event WHERE cluster_id = $1 AND request <> '' ORDER BY seq DESC
		LIMIT 1`, cluster).Scan(&id, &ms)
	if errors.Is(err, sql.ErrNoRows) {
		return "", 0, nil
	}
	return id, time.Duration(ms) * time.Millisecond, wrap.Errorf(err, "find the last request for cluster %s", cluster)
}
