package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// HashToken is how a token is stored: its SHA-256, hex. Tokens are random and long, so no salt is needed.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// AddToken lets the bearer of a token act as identity. Repeating it changes nothing.
func (tx *Tx) AddToken(ctx context.Context, hash, identity string) error {
	_, err := tx.exec(ctx, `INSERT INTO token (hash, identity, created_at) VALUES ($1, $2, now_ms()) ON CONFLICT (hash) DO NOTHING`, hash, identity)
	if err != nil {
		return fmt.Errorf("add token: %w", err)
	}
	return nil
}

// Identity tells whose token this is the hash of.
func (tx *Tx) Identity(ctx context.Context, hash string) (string, error) {
	scan := func(r scanner) (identity string, err error) { return identity, r.Scan(&identity) }
	return one(ctx, tx, scan, `SELECT identity FROM token WHERE hash = $1`, hash)
}

// Key is an SSH public key of an identity.
type Key struct {
	Identity    string
	Fingerprint string // SHA256:…
	Line        string // authorized_keys format
	CreatedAt   time.Time
}

// AddKey registers a key; ErrExists if that identity has it already.
func (tx *Tx) AddKey(ctx context.Context, k Key) error {
	_, err := tx.exec(ctx, `INSERT INTO user_key (identity, fingerprint, line, created_at) VALUES ($1, $2, $3, now_ms())`, k.Identity, k.Fingerprint, k.Line)
	if taken(err) {
		return fmt.Errorf("key %s: %w", k.Fingerprint, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("add key: %w", err)
	}
	return nil
}

// RemoveKey forgets a key; ErrNotFound if there is none.
func (tx *Tx) RemoveKey(ctx context.Context, identity, fingerprint string) error {
	n, err := tx.exec(ctx, `DELETE FROM user_key WHERE identity = $1 AND fingerprint = $2`, identity, fingerprint)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("remove key %s: %w", fingerprint, err)
	}
	return nil
}

// Keys lists an identity's keys, oldest first.
func (tx *Tx) Keys(ctx context.Context, identity string) ([]Key, error) {
	scan := func(r scanner) (k Key, err error) {
		var at int64
		err = r.Scan(&k.Identity, &k.Fingerprint, &k.Line, &at)
		k.CreatedAt = instant(at)
		return k, err
	}
	keys, err := list(ctx, tx, scan, `SELECT identity, fingerprint, line, created_at FROM user_key WHERE identity = $1 ORDER BY created_at, fingerprint`, identity)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return keys, nil
}

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
