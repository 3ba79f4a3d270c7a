package store

import (
	"context"
	"fmt"
	"time"
)

// Answer is the recorded answer to a request that carried an idempotency key.
type Answer struct {
	Request string // hash of what was asked
	Status  int
	Body    string
}

// SaveAnswer records an answer under an identity's key; ErrExists if the key was used.
func (tx *Tx) SaveAnswer(ctx context.Context, identity, key string, a Answer) error {
	_, err := tx.exec(ctx, `INSERT INTO idempotency (identity, key, request, status, answer, created_at) VALUES ($1, $2, $3, $4, $5, now_ms())`,
		identity, key, a.Request, a.Status, a.Body)
	if taken(err) {
		return fmt.Errorf("idempotency key: %w", ErrExists)
	}
	if err != nil {
		return fmt.Errorf("record an answer: %w", err)
	}
	return nil
}

// FindAnswer returns the recorded answer, or ErrNotFound.
func (tx *Tx) FindAnswer(ctx context.Context, identity, key string) (Answer, error) {
	scan := func(r scanner) (a Answer, err error) { return a, r.Scan(&a.Request, &a.Status, &a.Body) }
	return one(ctx, tx, scan, `SELECT request, status, answer FROM idempotency WHERE identity = $1 AND key = $2`, identity, key)
}

// ForgetAnswers drops the answers older than age.
func (tx *Tx) ForgetAnswers(ctx context.Context, age time.Duration) error {
	if _, err := tx.exec(ctx, `DELETE FROM idempotency WHERE created_at < now_ms() - $1`, age.Milliseconds()); err != nil {
		return fmt.Errorf("forget answers: %w", err)
	}
	return nil
}

// Secret returns the controller's secret of that name; where there is none yet, made is stored and returned, so that
// replicas that start together agree.
func (tx *Tx) Secret(ctx context.Context, name, made string) (string, error) {
	if _, err := tx.exec(ctx, `INSERT INTO secret (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, made); err != nil {
		return "", fmt.Errorf("store secret %s: %w", name, err)
	}
	var value string
	if err := tx.row(ctx, `SELECT value FROM secret WHERE name = $1`, name).Scan(&value); err != nil {
		return "", fmt.Errorf("read secret %s: %w", name, err)
	}
	return value, nil
}
