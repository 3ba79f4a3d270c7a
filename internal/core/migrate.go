package core

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
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
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

// makeTables makes what kinds bring beside the migrations.
func (s *Store) makeTables(ctx context.Context) error {
	brings := func(d Definition) bool { return d.Tables != "" }
	if !slices.ContainsFunc(s.kinds, brings) {
		return nil
	}
	return s.Quietly(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE desk SET visits = visits + 1`); err != nil { // one at a time
			return fmt.Errorf("reserve the schema: %w", err)
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

// migrationWords are what migrations ask for that each database says in a way of its own: {{devices}} are all devices of
// machines that are nobody's guests, by machine_id, kind and guid, out of what is known of the machines; {{summary}} is the
// summary of the facts of a row of machines.
var migrationWords = map[dialect]*strings.Replacer{
	sqliteFile: strings.NewReplacer("{{summary}}", `json_object('host', json_extract(facts, '$.host'),
		'arch', json_extract(facts, '$.arch'), 'cpu_model', json_extract(facts, '$.cpu_model'),
		'vendor', json_extract(facts, '$.system.vendor'), 'product', json_extract(facts, '$.system.product'),
		'cpus', json_extract(facts, '$.cpus'), 'cores', json_extract(facts, '$.cores'),
		'sockets', json_extract(facts, '$.sockets'), 'memory_mib', json_extract(facts, '$.memory_mib'),
		'numa_nodes', json_array_length(facts, '$.numa'), 'disks', json_array_length(facts, '$.disks'),
		'nics', json_array_length(facts, '$.nics'),
		'nic_mbps', (SELECT MAX(json_extract(value, '$.speed_mbps')) FROM json_each(facts, '$.nics')),
		'gpus', (SELECT COUNT(*) FROM json_each(facts, '$.devices') WHERE json_extract(value, '$.kind') = 'gpu'
			AND COALESCE(json_extract(value, '$.parent'), '') = ''),
		'hcas', (SELECT COUNT(*) FROM json_each(facts, '$.devices') WHERE json_extract(value, '$.kind') = 'hca'
			AND COALESCE(json_extract(value, '$.parent'), '') = ''))`, "{{devices}}", `(SELECT m.id AS machine_id, json_extract(e.value, '$.kind') AS kind,
		json_extract(e.value, '$.guid') AS guid
		FROM machine m, json_each(m.facts, '$.devices') e WHERE m.host_id IS NULL AND m.phase <> 'removed')`),
	postgres: strings.NewReplacer("{{summary}}", `(SELECT CAST(jsonb_build_object('host', f -> 'host',
		'arch', f -> 'arch', 'cpu_model', f -> 'cpu_model', 'vendor', f #> '{system,vendor}', 'product', f #> '{system,product}',
		'cpus', f -> 'cpus', 'cores', f -> 'cores', 'sockets', f -> 'sockets', 'memory_mib', f -> 'memory_mib',
		'numa_nodes', jsonb_array_length(jsonb_path_query_array(f, '$.numa[*]')),
		'disks', jsonb_array_length(jsonb_path_query_array(f, '$.disks[*]')),
		'nics', jsonb_array_length(jsonb_path_query_array(f, '$.nics[*]')),
		'nic_mbps', (SELECT MAX(CAST(n ->> 'speed_mbps' AS BIGINT)) FROM jsonb_path_query(f, '$.nics[*]') n),
		'gpus', (SELECT COUNT(*) FROM jsonb_path_query(f, '$.devices[*]') d WHERE d ->> 'kind' = 'gpu'
			AND COALESCE(d ->> 'parent', '') = ''),
		'hcas', (SELECT COUNT(*) FROM jsonb_path_query(f, '$.devices[*]') d WHERE d ->> 'kind' = 'hca'
			AND COALESCE(d ->> 'parent', '') = '')) AS TEXT) FROM (SELECT CAST(facts AS jsonb) AS f) known)`, "{{devices}}", `(SELECT m.id AS machine_id, e.value ->> 'kind' AS kind,
		e.value ->> 'guid' AS guid
		FROM machine m, jsonb_array_elements(COALESCE(NULLIF(CAST(m.facts AS jsonb) -> 'devices', 'null'), '[]')) AS e(value)
		WHERE m.host_id IS NULL AND m.phase <> 'removed')`),
}

// withLife fills in the columns of a life.
func withLife(statements string) string {
	return strings.ReplaceAll(statements, "{{life}}", strings.TrimSpace(life))
}

// migrator carries out the migration files, which are plain SQL that both databases accept, but for migrationWords. Their
// versions are 1, 2, … in the order of their names, up to newest.
func migrator(db *sql.DB, d dialect) (provider *goose.Provider, newest int64, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, 0, err
	}
	var steps []*goose.Migration
	for i, file := range files {
		text, err := fs.ReadFile(migrations, file)
		if err != nil {
			return nil, 0, err
		}
		statements := migrationWords[d].Replace(withLife(string(text)))
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
