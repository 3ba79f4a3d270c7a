package core

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"
)

// counted counts what is prepared.
type counted struct {
	driver.Connector
	prepared *atomic.Int64
}

func (c counted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return countedConn{conn.(engine), c.prepared}, err
}

type countedConn struct {
	engine
	prepared *atomic.Int64
}

func (c countedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.prepared.Add(1)
	return c.engine.PrepareContext(ctx, query)
}

func counting(t *testing.T) (db *sql.DB, prepared *atomic.Int64) {
	t.Helper()
	connector, err := sqlite.NewConnector("file:" + filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	prepared = &atomic.Int64{}
	db = sql.OpenDB(keeping{counted{connector, prepared}})
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE t (n BIGINT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	return db, prepared
}

func TestAStatementIsPreparedOnceAConnection(t *testing.T) {
	db, prepared := counting(t)
	for n := range 50 {
		if _, err := db.Exec("INSERT INTO t (n) VALUES ($1)", n); err != nil {
			t.Fatal(err)
		}
		var found int
		if err := db.QueryRow("SELECT n FROM t WHERE n = $1", n).Scan(&found); err != nil || found != n {
			t.Fatal(found, err)
		}
	}
	if prepared.Load() != 2 {
		t.Errorf("two statements were prepared %d times", prepared.Load())
	}
}

func TestAStatementThatRunsIsNotRunBesideItself(t *testing.T) {
	db, prepared := counting(t)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("INSERT INTO t (n) VALUES (1), (2), (3)"); err != nil {
		t.Fatal(err)
	}
	const query = "SELECT n FROM t ORDER BY n"
	outer, err := tx.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	var seen []int
	for outer.Next() {
		var n, first int
		if err := outer.Scan(&n); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(query).Scan(&first); err != nil || first != 1 {
			t.Fatal(first, err)
		}
		seen = append(seen, n)
	}
	if fmt.Sprint(seen) != "[1 2 3]" || outer.Err() != nil {
		t.Errorf("the outer query saw %v, %v", seen, outer.Err())
	}
	if prepared.Load() != 3 { // the insert, and the query twice
		t.Errorf("prepared %d times", prepared.Load())
	}
}

func TestAStatementThatFailedIsPreparedAnew(t *testing.T) {
	db, _ := counting(t)
	const insert = "INSERT INTO t (n) VALUES ($1)"
	for _, c := range []struct {
		n  int
		ok bool
	}{{1, true}, {1, false}, {2, true}, {2, false}, {3, true}} {
		if _, err := db.Exec(insert, c.n); (err == nil) != c.ok {
			t.Errorf("insert %d: %v", c.n, err)
		}
	}
}

func TestSoManyStatementsAreKeptAndNoMore(t *testing.T) {
	db, _ := counting(t)
	for n := range 2 * keptMost {
		if _, err := db.Exec(fmt.Sprintf("INSERT INTO t (n) VALUES (%d)", n)); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		if kept := len(c.(*keptConn).idle); kept != keptMost {
			return fmt.Errorf("%d are kept", kept)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAChangedSchemaReachesKeptStatements(t *testing.T) {
	db, _ := counting(t)
	read := func() (columns int) {
		rows, err := db.Query("SELECT * FROM t")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		names, err := rows.Columns()
		if err != nil || rows.Next() || rows.Err() != nil {
			t.Fatal(err, rows.Err())
		}
		return len(names)
	}
	before := read()
	if _, err := db.Exec("ALTER TABLE t ADD COLUMN m BIGINT"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO t (n, m) VALUES (1, 2)"); err != nil {
		t.Fatal(err)
	}
	if before != 1 {
		t.Errorf("%d columns before", before)
	}
	var n, m int
	if err := db.QueryRow("SELECT * FROM t").Scan(&n, &m); err != nil || n != 1 || m != 2 {
		t.Errorf("after: %d, %d, %v", n, m, err)
	}
}
