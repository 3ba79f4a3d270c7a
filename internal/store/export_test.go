package store

import (
	"context"
	"database/sql"
	"io/fs"
	"path"
	"strings"
)

// Exec lets tests go past the code, to the constraints of the database.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) error {
	_, err := tx.exec(ctx, query, args...)
	return err
}

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
func Migrations() (names []string) {
	files, _ := fs.Glob(migrations, "migrations/*.sql")
	for _, f := range files {
		names = append(names, strings.TrimSuffix(path.Base(f), ".sql"))
	}
	return names
}

// Explain is how the database goes about a query. PostgreSQL is told that tables are large: it reads small ones as a whole.
func (tx *Tx) Explain(ctx context.Context, query string, args ...any) (string, error) {
	explain, line := "EXPLAIN QUERY PLAN ", func(r scanner) (text string, err error) {
		var id, parent, unused int
		err = r.Scan(&id, &parent, &unused, &text)
		return text, err
	}
	if tx.d == postgres {
		if _, err := tx.exec(ctx, "SET LOCAL enable_seqscan = off"); err != nil {
			return "", err
		}
		explain, line = "EXPLAIN ", func(r scanner) (text string, err error) {
			err = r.Scan(&text)
			return text, err
		}
	}
	lines, err := list(ctx, tx, line, explain+query, args...)
	return strings.Join(lines, "\n"), err
}

// NextWake is Due's query for one kind.
func NextWake(kind Kind) string { return nextWake(kind) }

// Queries whose plans are held by tests.
const (
	ClustersNamedQuery = clustersNamed
	MachinesUnderQuery = machinesUnder
)
