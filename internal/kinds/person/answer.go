package person

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// Answer is the recorded answer to a request that carried an idempotency key.
type Answer struct {
	Request string // hash of what was asked
	Project string // that it was about
	Status  int
	Body    string
}

// MostAnswers is how many recorded answers an identity has, and mostAnswered how many bytes they have together; the oldest go.
const (
	MostAnswers  = 1000
	mostAnswered = 16 << 20
)

// SaveAnswer records an answer under an identity's key; core.ErrExists if the key was used.
func SaveAnswer(ctx context.Context, tx *core.Tx, identity, key string, a Answer) error {
	_, err := tx.Exec(ctx, `INSERT INTO idempotency (identity, key, request, status, answer, project, created_at) VALUES ($1,
		$2, $3, $4, $5, $6, now_ms())`,
		identity, key, a.Request, a.Status, a.Body, a.Project)
	if core.Taken(err) {
		return fmt.Errorf("idempotency key: %w", core.ErrExists)
	}
	if err != nil {
		return fmt.Errorf("record an answer: %w", err)
	}
	_, err = tx.Exec(ctx, `DELETE FROM idempotency WHERE identity = $1 AND key IN (SELECT key FROM (
			SELECT key, row_number() OVER newest AS place, sum(octet_length(answer)) OVER newest AS bytes
			FROM idempotency WHERE identity = $1 WINDOW newest AS (ORDER BY created_at DESC, key <> $4, key)) AS answers
		WHERE place > $2 OR place > 1 AND bytes > $3)`, identity, MostAnswers, mostAnswered, key)
	return wrap.Errorf(err, "forget the oldest answers")
}

// FindAnswer returns the recorded answer, or core.ErrNotFound.
func FindAnswer(ctx context.Context, tx *core.Tx, identity, key string) (Answer, error) {
	scan := core.Fields(func(a *Answer) []any { return []any{&a.Request, &a.Status, &a.Body, &a.Project} })
	return core.One(ctx, tx, scan, `SELECT request, status, answer, project FROM idempotency WHERE identity = $1 AND key = $2`,
		identity, key)
}

// ForgetAnswers drops the answers older than age.
func ForgetAnswers(ctx context.Context, tx *core.Tx, age time.Duration) error {
	_, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE created_at < now_ms() - $1`, age.Milliseconds())
	return wrap.Errorf(err, "forget answers")
}
