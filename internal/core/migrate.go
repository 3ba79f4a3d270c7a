package core

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"muster/internal/kit/wrap"
)

//go:embed migrations/*.sql
var migrations embed.FS

// life is what every table with a lifecycle has: the phase and how long it may last, and the claim of the controller
// that works on it (DESIGN.md section 3, rule 3).
const life = `
  phase       TEXT   NOT NULL,
  reason      TEXT   NOT NULL DEFAULT '',
  phase_at    BIGINT NOT NULL,               -- when the phase began
  attempts    BIGINT NOT NULL DEFAULT 0,     -- failures in a row in this phase
  wake_at     BIGINT NOT NULL,               -- when its handler wants to run next
  wakes       BIGINT NOT NULL DEFAULT 0,     -- counts wake-ups, so that none is lost while a handler runs
  owner       TEXT   NOT NULL DEFAULT '',
  fence       BIGINT NOT NULL DEFAULT 0,
  lease_until BIGINT NOT NULL DEFAULT 0`

// migrate brings the schema up to date.
func migrate(ctx context.Context, db *sql.DB, d dialect) error {
	provider, newest, err := migrator(db, d)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	at, err := provider.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the database's version: %w", err)
	}
	if at > newest {
		return fmt.Errorf("the database was written by a newer version of Muster (its schema is %d, this program knows %d): "+
			"use that version; nothing was changed", at, newest)
	}
	_, err = provider.Up(ctx)
	return wrap.Errorf(err, "migrate the database")
}

// makeTables makes what kinds bring beside the migrations.
func (s *Store) makeTables(ctx context.Context) error {
	brings := func(d Definition) bool { return d.Tables != "" }
	if !slices.ContainsFunc(s.kinds, brings) {
		return nil
	}
	return s.Quietly(ctx, func(tx *Tx) error {
		if err := tx.LockSite(ctx); err != nil {
			return err
		}
		for _, d := range s.kinds {
			if !brings(d) {
				continue
			}
			if _, err := tx.Exec(ctx, withLife(d.Tables)); err != nil {
				return fmt.Errorf("make the tables of %ss: %w", d.Kind, err)
			}
		}
		return nil
	})
}

// withLife fills in the columns of a life.
func withLife(statements string) string {
	return strings.ReplaceAll(statements, "{{life}}", strings.TrimSpace(life))
}

// readMigrations lists the migrations in order: plain SQL that both databases accept. Files whose names begin with one number are
// one migration.
func readMigrations() (names, statements []string, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		text, err := fs.ReadFile(migrations, file)
		if err != nil {
			return nil, nil, err
		}
		number, _, _ := strings.Cut(path.Base(file), "_")
		if n := len(names); n == 0 || names[n-1] != number {
			names, statements = append(names, number), append(statements, "")
		}
		statements[len(statements)-1] += withLife(string(text))
	}
	return names, statements, nil
}

// migrator carries out the migrations. Their versions are 1, 2, … up to newest.
func migrator(db *sql.DB, d dialect) (provider *goose.Provider, newest int64, err error) {
	_, migrations, err := readMigrations()
	if err != nil {
		return nil, 0, err
	}
	var steps []*goose.Migration
	for i, statements := range migrations {
		up := &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, statements)
			return err
		}}
		steps = append(steps, goose.NewGoMigration(int64(i+1), up, nil))
	}
	options := []goose.ProviderOption{goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true)}
	if d == postgres { // SQLite: one process at a time holds the file
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return nil, 0, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	kind := goose.DialectSQLite3
	if d == postgres {
		kind = goose.DialectPostgres
	}
	provider, err = goose.NewProvider(kind, db, nil, options...)
	return provider, int64(len(steps)), err
}
