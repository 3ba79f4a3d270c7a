package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Session is one connection through an SSH gateway to one place.
type Session struct {
	ID         string
	Person     string
	Credential string // fingerprint of a key, or ID of a login
	Gateway    string // the controller that carries it
	Kind       string // of the place: cluster or centre
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
func (tx *Tx) BeginSession(ctx context.Context, s Session) error {
	_, err := tx.exec(ctx, `INSERT INTO session (id, person, credential, gateway, kind, place_id, place, project, what, remote, recorded, began_at, seen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now_ms(), now_ms())`,
		s.ID, s.Person, s.Credential, s.Gateway, s.Kind, s.PlaceID, s.Place, s.Project, s.What, s.Remote, bit(s.Recorded))
	if err != nil {
		return fmt.Errorf("begin session %s: %w", s.ID, err)
	}
	return nil
}

// EndSession writes what it was and how it ended. One that has ended stays as it is.
func (tx *Tx) EndSession(ctx context.Context, s Session) error {
	_, err := tx.exec(ctx, `UPDATE session SET what = $2, received = $3, sent = $4, outcome = $5, seen_at = now_ms(), ended_at = now_ms()
		WHERE id = $1 AND ended_at IS NULL`, s.ID, s.What, s.Received, s.Sent, s.Outcome)
	if err != nil {
		return fmt.Errorf("end session %s: %w", s.ID, err)
	}
	return nil
}

// SaySession writes how far an open session has come.
func (tx *Tx) SaySession(ctx context.Context, s Session) error {
	_, err := tx.exec(ctx, `UPDATE session SET what = $2, received = $3, sent = $4, seen_at = now_ms() WHERE id = $1 AND ended_at IS NULL`,
		s.ID, s.What, s.Received, s.Sent)
	if err != nil {
		return fmt.Errorf("write session %s: %w", s.ID, err)
	}
	return nil
}

// WantSessionEnded asks its gateway to end a session; by is for the words that the person is told.
func (tx *Tx) WantSessionEnded(ctx context.Context, id, by string) error {
	if _, err := tx.exec(ctx, `UPDATE session SET end_by = $2 WHERE id = $1 AND ended_at IS NULL`, id, by); err != nil {
		return fmt.Errorf("ask for the end of session %s: %w", id, err)
	}
	return nil
}

// SessionsToEnd lists the open sessions of a gateway that somebody wants ended, and who.
func (tx *Tx) SessionsToEnd(ctx context.Context, gateway string) (map[string]string, error) {
	type pair struct{ id, by string }
	scan := func(r scanner) (p pair, err error) { return p, r.Scan(&p.id, &p.by) }
	pairs, err := list(ctx, tx, scan, `SELECT id, end_by FROM session WHERE gateway = $1 AND ended_at IS NULL AND end_by <> ''`, gateway)
	if err != nil {
		return nil, fmt.Errorf("list sessions to end: %w", err)
	}
	all := map[string]string{}
	for _, p := range pairs {
		all[p.id] = p.by
	}
	return all, nil
}

// LoseSessions ends the sessions of which no gateway has said anything for that long: theirs has ended.
func (tx *Tx) LoseSessions(ctx context.Context, silence time.Duration) error {
	_, err := tx.exec(ctx, `UPDATE session SET ended_at = seen_at, outcome = 'its gateway was lost' WHERE ended_at IS NULL AND seen_at < now_ms() - $1`, silence.Milliseconds())
	if err != nil {
		return fmt.Errorf("end the sessions of lost gateways: %w", err)
	}
	return nil
}

// ForgetSessions drops those that ended longer ago than age.
func (tx *Tx) ForgetSessions(ctx context.Context, age time.Duration) error {
	if _, err := tx.exec(ctx, `DELETE FROM session WHERE ended_at < now_ms() - $1`, age.Milliseconds()); err != nil {
		return fmt.Errorf("forget sessions: %w", err)
	}
	return nil
}

const sessionColumns = `id, person, credential, gateway, kind, place_id, place, project, what, remote, began_at, ended_at, received, sent, outcome, recorded`

func scanSession(r scanner) (s Session, err error) {
	var began int64
	var ended sql.NullInt64
	err = r.Scan(&s.ID, &s.Person, &s.Credential, &s.Gateway, &s.Kind, &s.PlaceID, &s.Place, &s.Project, &s.What, &s.Remote, &began, &ended,
		&s.Received, &s.Sent, &s.Outcome, &s.Recorded)
	s.BeganAt = instant(began)
	if ended.Valid {
		s.EndedAt = instant(ended.Int64)
	}
	return s, err
}

// Session finds a session.
func (tx *Tx) Session(ctx context.Context, id string) (Session, error) {
	s, err := one(ctx, tx, scanSession, `SELECT `+sessionColumns+` FROM session WHERE id = $1`, id)
	if err != nil {
		return s, fmt.Errorf("session %s: %w", id, err)
	}
	return s, nil
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
func (tx *Tx) Sessions(ctx context.Context, of SessionsOf) ([]Session, error) {
	var which where
	if of.Projects != nil {
		which.among("project", of.Projects, "person", of.Person)
	}
	if of.Within != "" {
		which.and(`project = $?`, of.Within)
	}
	if !of.Ended {
		which.and(`ended_at IS NULL`)
	}
	if !of.Before.IsZero() {
		which.and(`(began_at < $? OR began_at = $? AND id < $?)`, of.Before.UnixMilli(), of.Before.UnixMilli(), of.BeforeID)
	}
	which.rest(` ORDER BY began_at DESC, id DESC LIMIT $?`, of.Limit)
	sessions, err := list(ctx, tx, scanSession, `SELECT `+sessionColumns+` FROM session`+which.text, which.args...)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return sessions, nil
}
