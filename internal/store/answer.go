package store

import (
	"context"
	"fmt"
	"time"
)

// Answer is the recorded answer to a request that carried an idempotency key.
type Answer struct {
	Request string // hash of what was asked
	Project string // that it was about; "" in answers that were recorded before this was kept
	Status  int
	Body    string
}

// SaveAnswer records an answer under an identity's key; ErrExists if the key was used.
func (tx *Tx) SaveAnswer(ctx context.Context, identity, key string, a Answer) error {
	_, err := tx.exec(ctx, `INSERT INTO idempotency (identity, key, request, status, answer, project, created_at) VALUES ($1, $2, $3, $4, $5, $6, now_ms())`,
		identity, key, a.Request, a.Status, a.Body, a.Project)
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
	scan := func(r scanner) (a Answer, err error) { return a, r.Scan(&a.Request, &a.Status, &a.Body, &a.Project) }
	return one(ctx, tx, scan, `SELECT request, status, answer, project FROM idempotency WHERE identity = $1 AND key = $2`, identity, key)
}

// ForgetAnswers drops the answers older than age.
func (tx *Tx) ForgetAnswers(ctx context.Context, age time.Duration) error {
	if _, err := tx.exec(ctx, `DELETE FROM idempotency WHERE created_at < now_ms() - $1`, age.Milliseconds()); err != nil {
		return fmt.Errorf("forget answers: %w", err)
	}
	return nil
}
