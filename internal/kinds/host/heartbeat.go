package host

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/machine"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Deaf is how long a controller may be away, stopped or without its database, before it has missed something: one of the
// reports that agents send every 5 s.
const Deaf = 5 * time.Second

// listenersKept is how long the row of a controller that has gone is remembered.
const listenersKept = time.Hour

// Listen notes that a controller hears the agents of a place now. Said every second; a gap begins the count again.
func Listen(ctx context.Context, tx *core.Tx, place, controller string) error {
	_, err := tx.Exec(ctx, `INSERT INTO listener (place, controller, since, heard_at) VALUES ($1, $2, now_ms(), now_ms())
		ON CONFLICT (place, controller) DO UPDATE SET
			since = CASE WHEN now_ms() - listener.heard_at > $3 THEN now_ms() ELSE listener.since END, heard_at = now_ms()`,
		place, controller, Deaf.Milliseconds())
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM listener WHERE heard_at < now_ms() - $1`, listenersKept.Milliseconds())
	}
	return wrap.Errorf(err, "listen at %q", place)
}

// ListenedSince is the time since which some controller has heard the agents of a place without a gap: now, if none does.
// One that listens is enough, as agents go from a controller that does not answer to the next.
func ListenedSince(ctx context.Context, tx *core.Tx, place string) (since time.Time, err error) {
	err = tx.Row(ctx, `SELECT COALESCE(MIN(since), now_ms()) FROM listener WHERE place = $1 AND heard_at >= now_ms() - $2`, place,
		Deaf.Milliseconds()).Scan(core.Time(&since))
	return since, wrap.Errorf(err, "who listens at %q", place)
}

// Heartbeat is a node as those see it who ask whether many are lost at once.
type Heartbeat struct {
	Node        string // ID
	Cluster     string // ID
	Project     string
	Name        string
	Role        protocol.Role
	Place       string
	Phase       core.Phase
	PhaseAt     time.Time
	SeenAt      time.Time // of its boot; zero: never
	WellAt      time.Time
	WellSince   time.Time // zero: it is not well
	FailedAt    time.Time // zero: it has not
	Undisturbed time.Time // as in Machine
}

// Heartbeats lists the nodes of a place whose agents are to be heard, and those that failed within the time given and whose
// name has no ready node again. One that is being suspended does not report.
func Heartbeats(ctx context.Context, tx *core.Tx, place string, within time.Duration) ([]Heartbeat, error) {
	scan := core.Fields(func(p *Heartbeat) []any {
		return []any{&p.Node, &p.Cluster, &p.Project, &p.Name, &p.Role, &p.Place, &p.Phase, core.Time(&p.PhaseAt),
			core.Time(&p.SeenAt), core.Time(&p.WellAt), core.Time(&p.WellSince), core.Time(&p.FailedAt),
			core.Time(&p.Undisturbed)}
	})
	heartbeats, err := core.List(ctx, tx, scan, `SELECT n.id, n.cluster_id, c.project, n.name, n.role, m.network, n.phase, n.phase_at,
			CASE WHEN o.boot = n.boot THEN o.seen_at ELSE 0 END, CASE WHEN o.boot = n.boot THEN o.well_at ELSE 0 END,
			CASE WHEN o.boot = n.boot THEN o.well_since ELSE 0 END, n.failed_at, `+machine.Undisturbed+`
		FROM node n JOIN cluster c ON c.id = n.cluster_id JOIN machine m ON m.name = n.machine LEFT JOIN observed o ON o.node_id = n.id
		WHERE m.network = $1 AND (n.phase IN ('joining', 'testing', 'ready', 'draining') AND n.sleeps = 0
			OR n.failed_at > now_ms() - $2 AND NOT EXISTS (
				SELECT 1 FROM node r WHERE r.cluster_id = n.cluster_id AND r.name = n.name AND r.phase = 'ready'))`,
		place, within.Milliseconds())
	return heartbeats, wrap.Errorf(err, "look at the nodes of %q", place)
}

// PlacesOfFailures lists the places where nodes of a cluster have ever failed.
func PlacesOfFailures(ctx context.Context, tx *core.Tx, cluster string) ([]string, error) {
	places, err := core.List(ctx, tx, core.Value[string], `SELECT DISTINCT m.network FROM node n JOIN machine m ON m.name = n.machine
		WHERE n.cluster_id = $1 AND n.failed_at > 0 ORDER BY m.network`, cluster)
	return places, wrap.Errorf(err, "list the places where nodes of cluster %s failed", cluster)
}

// NoteFailure writes when a node failed.
func NoteFailure(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE node SET failed_at = now_ms() WHERE id = $1`, id)
	return wrap.Errorf(err, "note the failure of node %s", id)
}

// Alarm says that so many nodes of a place are lost at once that the cause is probably not in each of them.
type Alarm struct {
	Place    string // a network; "": the controller's own host
	RaisedAt time.Time
	Text     string
}

// Alarms lists those that stand, by place.
func Alarms(ctx context.Context, tx *core.Tx) ([]Alarm, error) {
	scan := core.Fields(func(a *Alarm) []any { return []any{&a.Place, core.Time(&a.RaisedAt), &a.Text} })
	alarms, err := core.List(ctx, tx, scan, `SELECT place, raised_at, text FROM alarm ORDER BY place`)
	return alarms, wrap.Errorf(err, "list alarms")
}

// IllAt says whether a node of a cluster at a place has not been well for so long.
func IllAt(ctx context.Context, tx *core.Tx, cluster, place string, quiet time.Duration) (ill bool, err error) {
	err = tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM node n JOIN machine m ON m.id = n.machine_id
		LEFT JOIN observed o ON o.node_id = n.id AND o.boot = n.boot
		WHERE n.cluster_id = $1 AND m.network = $2 AND n.phase IN ('joining', 'testing', 'ready', 'draining')
			AND COALESCE(o.well_at, 0) < now_ms() - $3)`, cluster, place, quiet.Milliseconds()).Scan(&ill)
	return ill, wrap.Errorf(err, "look for nodes of cluster %s that are not well", cluster)
}

// Alarmed is true while the alarm of a place stands.
func Alarmed(ctx context.Context, tx *core.Tx, place string) (bool, error) {
	var stands bool
	err := tx.Row(ctx, `SELECT EXISTS (SELECT 1 FROM alarm WHERE place = $1)`, place).Scan(&stands)
	return stands, wrap.Errorf(err, "look for the alarm at %q", place)
}

// RaiseAlarm raises the alarm of a place, with an event; nothing changes while it stands.
func RaiseAlarm(ctx context.Context, tx *core.Tx, place, text string) error {
	n, err := tx.Exec(ctx, `INSERT INTO alarm (place, raised_at, text) VALUES ($1, now_ms(), $2) ON CONFLICT (place) DO NOTHING`,
		place, text)
	if err != nil {
		return fmt.Errorf("raise the alarm at %q: %w", place, err)
	}
	if n == 1 {
		tx.Log(core.Event{Type: "site.alarm", Text: text})
	}
	return nil
}

// RaiseAlarmAnew is RaiseAlarm, but that an alarm that stands says from then on what is wrong now; there is no event for that.
func RaiseAlarmAnew(ctx context.Context, tx *core.Tx, place, text string) error {
	if err := RaiseAlarm(ctx, tx, place, text); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE alarm SET text = $2, raised_at = now_ms() WHERE place = $1 AND text <> $2`, place, text)
	return wrap.Errorf(err, "change the alarm at %q", place)
}

// ClearAlarm ends the alarm of a place, with an event that says why. The place counts as listened to only from then on: what
// hid its nodes gives them back one after the other.
func ClearAlarm(ctx context.Context, tx *core.Tx, place, why string) error {
	n, err := tx.Exec(ctx, `DELETE FROM alarm WHERE place = $1`, place)
	if err == nil && n == 1 {
		_, err = tx.Exec(ctx, `UPDATE listener SET since = now_ms() WHERE place = $1`, place)
	}
	if err != nil {
		return fmt.Errorf("clear the alarm at %q: %w", place, err)
	}
	if n == 1 {
		tx.Log(core.Event{Type: "site.alarm", Text: why})
	}
	return nil
}
