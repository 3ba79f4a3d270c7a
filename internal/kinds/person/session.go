package person

import (
	"cmp"
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// Session is one connection through an SSH gateway to one place.
type Session struct {
	ID         string
	Person     string
	Credential string // fingerprint of a key, or ID of a login
	Gateway    string // the controller that carries it
	Kind       string // of the place: cluster or external cluster
	PlaceID    string
	Place      string
	Project    string
	What       string // shell, exec, sftp, forward, jump; several with commas
	Remote     string
	BeganAt    time.Time
	EndedAt    time.Time // zero: is open
	Received   int64     // bytes from the person
	Sent       int64
	Outcome    string // how it ended
	Recorded   bool
}

// BeginSession writes that somebody is let in; its time is given.
func BeginSession(ctx context.Context, tx *core.Tx, s Session) error {
	_, err := tx.Exec(ctx, `INSERT INTO session (id, person, credential, gateway, kind, place_id, place, project, what, remote,
		recorded, began_at, seen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now_ms(), now_ms())`,
		s.ID, s.Person, s.Credential, s.Gateway, s.Kind, s.PlaceID, s.Place, s.Project, s.What, s.Remote, core.Flag(s.Recorded))
	return wrap.Errorf(err, "begin session %s", s.ID)
}

// EndSession writes what it was and how it ended. One that has ended stays as it is.
func EndSession(ctx context.Context, tx *core.Tx, s Session) error {
	_, err := tx.Exec(ctx, `UPDATE session SET what = $2, received = $3, sent = $4, outcome = $5, seen_at = now_ms(),
		ended_at = now_ms()
		WHERE id = $1 AND ended_at IS NULL`, s.ID, s.What, s.Received, s.Sent, s.Outcome)
	return wrap.Errorf(err, "end session %s", s.ID)
}

// SaySession writes how far an open session has come.
func SaySession(ctx context.Context, tx *core.Tx, s Session) error {
	_, err := tx.Exec(ctx, `UPDATE session SET what = $2, received = $3, sent = $4, seen_at = now_ms() WHERE id = $1 AND
		ended_at IS NULL`,
		s.ID, s.What, s.Received, s.Sent)
	return wrap.Errorf(err, "write session %s", s.ID)
}

// WantSessionEnded asks its gateway to end a session; by is for the words that the person is told.
func WantSessionEnded(ctx context.Context, tx *core.Tx, id, by string) error {
	_, err := tx.Exec(ctx, `UPDATE session SET end_by = $2 WHERE id = $1 AND ended_at IS NULL`, id, by)
	return wrap.Errorf(err, "ask for the end of session %s", id)
}

// SessionsToEnd lists the open sessions of a gateway that somebody wants ended, and who.
func SessionsToEnd(ctx context.Context, tx *core.Tx, gateway string) (map[string]string, error) {
	all, err := core.Pairs[string, string](ctx, tx,
		`SELECT id, end_by FROM session WHERE gateway = $1 AND ended_at IS NULL AND end_by <> ''`, gateway)
	return all, wrap.Errorf(err, "list sessions to end")
}

// LoseSessions ends the sessions that no gateway has reported for that long: theirs has ended.
func LoseSessions(ctx context.Context, tx *core.Tx, silence time.Duration) error {
	_, err := tx.Exec(ctx, `UPDATE session SET ended_at = seen_at, outcome = 'its gateway was lost' WHERE ended_at IS NULL
		AND seen_at < now_ms() - $1`, silence.Milliseconds())
	return wrap.Errorf(err, "end the sessions of lost gateways")
}

// ForgetSessions drops those that ended longer ago than age.
func ForgetSessions(ctx context.Context, tx *core.Tx, age time.Duration) error {
	_, err := tx.Exec(ctx, `DELETE FROM session WHERE ended_at < now_ms() - $1`, age.Milliseconds())
	return wrap.Errorf(err, "forget sessions")
}

const sessionColumns = `id, person, credential, gateway, kind, place_id, place, project, what, remote, began_at, ended_at, received, sent, outcome, recorded`

func scanSession(r core.Scanner) (s Session, err error) {
	err = r.Scan(&s.ID, &s.Person, &s.Credential, &s.Gateway, &s.Kind, &s.PlaceID, &s.Place, &s.Project, &s.What, &s.Remote,
		core.Time(&s.BeganAt), core.Time(&s.EndedAt), &s.Received, &s.Sent, &s.Outcome, &s.Recorded)
	return s, err
}

// GetSession finds a session.
func GetSession(ctx context.Context, tx *core.Tx, id string) (Session, error) {
	s, err := core.One(ctx, tx, scanSession, `SELECT `+sessionColumns+` FROM session WHERE id = $1`, id)
	return s, wrap.Errorf(err, "session %s", id)
}

// SessionsOf says which sessions are meant. Empty fields mean any.
type SessionsOf struct {
	Projects []string // nil: any
	Person   string   // with Projects: also this person's elsewhere
	Within   string   // only this project's; "": any
	Ended    bool     // those that have ended, too
	Before   time.Time
	BeforeID string // with Before: those of that instant with a lower ID too
	Limit    int
}

// Sessions lists sessions, newest first.
func Sessions(ctx context.Context, tx *core.Tx, of SessionsOf) ([]Session, error) {
	return newest(of.Projects, of.Person, of.Limit, func(only scope) ([]Session, error) { return sessions(ctx, tx, of, only) },
		func(a, b Session) int { return cmp.Or(b.BeganAt.Compare(a.BeganAt), cmp.Compare(b.ID, a.ID)) })
}

func sessions(ctx context.Context, tx *core.Tx, of SessionsOf, only scope) ([]Session, error) {
	var which core.Where
	only.narrow(&which)
	which.When(of.Within != "", `project = $?`, of.Within)
	which.When(!of.Ended, `ended_at IS NULL`)
	which.When(!of.Before.IsZero(), `(began_at < $? OR began_at = $? AND id < $?)`, of.Before.UnixMilli(),
		of.Before.UnixMilli(), of.BeforeID)
	which.Rest(` ORDER BY began_at DESC, id DESC LIMIT $?`, of.Limit)
	all, err := core.List(ctx, tx, scanSession, `SELECT `+sessionColumns+` FROM session`+which.Text, which.Args...)
	return all, wrap.Errorf(err, "list sessions")
}
