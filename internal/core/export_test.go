package core

import (
	"context"
	"database/sql"
)

// MigrateTo brings a database up to a version, and no further.
func MigrateTo(ctx context.Context, db *sql.DB, shared bool, version int64) error {
	d := sqliteFile
	if shared {
		d = postgres
	}
	provider, _, err := migrator(db, d)
	if err == nil {
		_, err = provider.UpTo(ctx, version)
	}
	return err
}

// Migrations names all of them, in order.
func Migrations() []string {
	names, _, err := readMigrations()
	if err != nil {
		panic(err)
	}
	return names
}

// NextWake is Due's query for one kind.
func NextWake(kind Kind) string { return nextWake(kind) }

// Waiting is how many wait to write.
func (s *Store) Waiting() int { return s.writing.Waiting() }
