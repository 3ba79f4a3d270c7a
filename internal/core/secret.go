package core

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"muster/internal/kit/wrap"
)

// Secret is a value that lies sealed in the database. It cannot be printed, logged, made JSON of or written as it is: the
// database takes what seal makes of it, and Reveal opens it.
type Secret struct {
	plain []byte
	box   string // sealed
	place string // of the box: table, column and row
}

// NewSecret is a secret that is to be stored.
func NewSecret(plain []byte) Secret { return Secret{plain: plain} }

const hidden = "(secret)"

// Format keeps package fmt from printing what is inside.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

// LogValue keeps it out of logs.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText keeps it out of JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Value refuses to be written.
func (Secret) Value() (driver.Value, error) {
	return nil, errors.New("a secret must be sealed before it is stored")
}

// SealedColumn is a column whose values are sealed.
type SealedColumn struct {
	Table, Name string
	Row         string // the column, or columns, that name a row, as an expression
}

// place names what a box is bound to.
func (c SealedColumn) place(row string) string { return c.Table + "." + c.Name + " " + row }

// Seal makes of a secret what may stand in the database.
func (tx *Tx) Seal(ctx context.Context, c SealedColumn, row string, s Secret) (string, error) {
	if tx.keys == nil {
		return "", fmt.Errorf("seal %s: the database was opened without the site's key", c.place(row))
	}
	plain, err := tx.Reveal(ctx, s)
	if err != nil {
		return "", err
	}
	id, err := tx.newestKey(ctx)
	if err != nil {
		return "", err
	}
	return tx.keys.Seal(ctx, id, c.place(row), plain)
}

// Sealed is a secret as it was read.
func Sealed(c SealedColumn, row, box string) Secret { return Secret{box: box, place: c.place(row)} }

// Reveal opens a secret.
func (tx *Tx) Reveal(ctx context.Context, s Secret) ([]byte, error) {
	if s.box == "" {
		return s.plain, nil
	}
	if tx.keys == nil {
		return nil, fmt.Errorf("open %s: the database was opened without the site's key", s.place)
	}
	return tx.keys.Open(ctx, s.place, s.box)
}

// newestKey names the key to seal with. Its row is locked, so that it is not taken away before this transaction ends.
func (tx *Tx) newestKey(ctx context.Context) (id string, err error) {
	err = tx.Row(ctx, `SELECT id FROM site_key ORDER BY number DESC LIMIT 1 FOR UPDATE`).Scan(&id)
	return id, wrap.Errorf(err, "find the key to seal with")
}

func siteSecret() SealedColumn { return SealedColumn{"secret", "value", "name"} }

// Secret returns the controller's secret of that name; where there is none yet, made is stored and returned, so that
// replicas that start together agree.
func (tx *Tx) Secret(ctx context.Context, name, made string) (string, error) {
	box, err := tx.Seal(ctx, siteSecret(), name, NewSecret([]byte(made)))
	if err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO secret (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name,
		box); err != nil {
		return "", fmt.Errorf("store secret %s: %w", name, err)
	}
	if err := tx.Row(ctx, `SELECT value FROM secret WHERE name = $1`, name).Scan(&box); err != nil {
		return "", fmt.Errorf("read secret %s: %w", name, err)
	}
	plain, err := tx.Reveal(ctx, Sealed(siteSecret(), name, box))
	return string(plain), err
}
