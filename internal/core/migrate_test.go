package core_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/external"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/kinds/snapshot"
	"muster/internal/kinds/task"
)

// TestDatabasesOfEveryEarlierVersionGoOn makes the database of each version, with rows in all of its tables as that version wrote
// them, opens it, reads everything, and works on with what lives.
func TestDatabasesOfEveryEarlierVersionGoOn(t *testing.T) {
	names := core.Migrations()
	kindstest.Each(t, func(t *testing.T, url string) {
		then := url + "then" // goes through all versions; each is copied
		if strings.Contains(url, "://") {
			then = kindstest.EmptyPostgres(t)
		}
		for i := range names {
			step(t, then, names[i], int64(i+1))
			t.Run(names[i], func(t *testing.T) { goesOn(t, kindstest.Copy(t, then), names[:i+1]) })
		}
	})
}

// step brings a database to one version more, with rows of its time.
func step(t *testing.T, url, name string, version int64) {
	t.Helper()
	raw := kindstest.RawDatabase(t, url)
	rows, err := os.ReadFile(filepath.Join("testdata", "rows", name+".sql"))
	if err != nil {
		t.Fatalf("migration %s has no rows of its time: %v", name, err)
	}
	if err := core.MigrateTo(t.Context(), raw, strings.Contains(url, "://"), version); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.ExecContext(t.Context(), string(rows)); err != nil {
		t.Fatalf("rows of %s: %v", name, err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
}

func goesOn(t *testing.T, url string, names []string) {
	ctx := t.Context()
	raw := kindstest.RawDatabase(t, url)
	before := count(t, raw)
	for table, n := range before {
		filled := []string{"site_key", "secret", "authority", "gateway_key"} // by the program alone
		if n == 0 && !slices.Contains(filled, table) {
			t.Errorf("table %s has no row in testdata/rows", table)
		}
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}

	s, err := kinds.Open(ctx, url, kindstest.Keys(), core.Volatile)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.View(ctx, func(tx *core.Tx) error { return readAll(ctx, tx) }); err != nil {
		t.Error(err)
	}
	for _, w := range writtenThen {
		if !slices.Contains(names, w.since) {
			continue
		}
		var got any
		err := s.View(ctx, func(tx *core.Tx) (err error) {
			got, err = w.read(ctx, tx)
			return err
		})
		if err != nil || !reflect.DeepEqual(got, w.want) {
			t.Errorf("%s: %v, %v; it was written as %v", w.what, got, err, w.want)
		}
	}
	for _, kind := range []core.Kind{cluster.Kind, node.Kind, machine.Kind, snapshot.Kind, fabrics.Kind, task.Kind,
		external.Kind} {
		claims, err := s.Claim(ctx, kind, "test", time.Minute, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(claims) == 0 && before[string(kind)] > 0 {
			t.Errorf("no %s is claimed", kind)
		}
		for _, c := range claims {
			if err := settleAsItIs(ctx, s, c); err != nil {
				t.Error(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	raw = kindstest.RawDatabase(t, url)
	defer raw.Close()
	after := count(t, raw)
	for table, n := range before {
		if after[table] < n {
			t.Errorf("table %s had %d rows, and has %d", table, n, after[table])
		}
	}
}

// writtenThen is what testdata/rows hold inside of columns that are JSON, and how it is read now.
var writtenThen = []struct {
	since, what string
	read        func(context.Context, *core.Tx) (any, error)
	want        any
}{
	{"00001", "the classes of a cluster's queues", func(ctx context.Context, tx *core.Tx) (any, error) {
		c, err := cluster.Get(ctx, tx, "c1")
		return c.Spec.Queues[0].Class, err
	}, "local"},
	{"00001", "the size of a machine", func(ctx context.Context, tx *core.Tx) (any, error) {
		m, err := machine.Get(ctx, tx, "m1")
		return []int{m.Facts.CPUs, m.Facts.MemoryMiB}, err
	}, []int{4, 8192}},
	{"00001", "the checks of a node", func(ctx context.Context, tx *core.Tx) (any, error) {
		n, err := node.Get(ctx, tx, "k1")
		return n.Seen.Checks[0].Name, err
	}, "munge"},
	{"00001", "what the scheduler says of a node", func(ctx context.Context, tx *core.Tx) (any, error) {
		n, err := node.Get(ctx, tx, "k2")
		return n.Seen.Scheduler.Name + " " + n.Seen.Scheduler.Raw, err
	}, "n2 idle"},
	{"00001", "what a machine boots for", func(ctx context.Context, tx *core.Tx) (any, error) {
		b, err := machine.BootOn(ctx, tx, "m5")
		return fmt.Sprint(b.File.Name, " ", b.File.Duty, " ", b.File.Endpoints), err
	}, "rack-1 inspect [https://10.78.0.1:7421]"},
	{"00001", "how a machine is switched", func(ctx context.Context, tx *core.Tx) (any, error) {
		m, err := machine.Get(ctx, tx, "m5")
		return m.Power.Control + " " + m.Power.Credentials, err
	}, "ipmi://10.0.0.5 secret:bmc"},
	{"00001", "a network's mode", func(ctx context.Context, tx *core.Tx) (any, error) {
		all, err := network.List(ctx, tx)
		return fmt.Sprint(all[0].Mode, " ", all[0].Address), err
	}, "own 10.78.0.1/16"},
	{"00001", "what a node measured", func(ctx context.Context, tx *core.Tx) (any, error) {
		n, err := node.Get(ctx, tx, "k2")
		return fmt.Sprint(n.Seen.Test.Measures[0].Quantity, " ", n.Seen.Test.Measures[0].Value), err
	}, "memory 10.5"},
	{"00001", "which jobs wait", func(ctx context.Context, tx *core.Tx) (any, error) {
		n, err := node.Get(ctx, tx, "k1")
		return fmt.Sprint(n.Seen.Waiting.Total, " ", n.Seen.Waiting.Jobs[0].User, " ", n.Seen.Waiting.Jobs[0].Grows), err
	}, "1 ada true"},
	{"00001", "what a head could not do", func(ctx context.Context, tx *core.Tx) (any, error) {
		n, err := node.Get(ctx, tx, "k1")
		return fmt.Sprint(n.Seen.Undone), err
	}, "[{ada home and keys: no space left on device}]"},
	{"00001", "what is known of a queue", func(ctx context.Context, tx *core.Tx) (any, error) {
		c, err := cluster.Get(ctx, tx, "c1")
		return fmt.Sprint(c.Learned["batch"].Size.Memory, " ", c.Learned["batch"].Doubts[7].Vain), err
	}, "4096 true"},
	{"00001", "the shape of a guest", func(ctx context.Context, tx *core.Tx) (any, error) {
		n, err := node.Get(ctx, tx, "k3")
		return fmt.Sprint(n.VM.CPUs, " ", n.VM.Memory), err
	}, "2 4GiB"},
	{"00001", "what a host is to hold", func(ctx context.Context, tx *core.Tx) (any, error) {
		all, err := host.EveryHosted(ctx, tx)
		return fmt.Sprint(all[0].Guest.Name, " ", all[0].Guest.MAC, " ", all[0].Guest.File.Name), err
	}, "n2 02:00:00:00:07:03 n2"},
	{"00001", "what a fabric's driver is told", func(ctx context.Context, tx *core.Tx) (any, error) {
		f, err := fabrics.Get(ctx, tx, "f1")
		return fmt.Sprint(f.Config["hosts"], " ", f.Managers), err
	}, "here [0x0002c90300000001]"},
	{"00001", "whose the adapter of a port is", func(ctx context.Context, tx *core.Tx) (any, error) {
		homes, err := fabrics.Homes(ctx, tx, "f1")
		return fmt.Sprint(homes), err
	}, "[{0x0002c90300000012 m2}]"},
	{"00001", "what a task runs, and what its head said of it", func(ctx context.Context, tx *core.Tx) (any, error) {
		t, err := task.Get(ctx, tx, "t1")
		return fmt.Sprint(t.Work.Command, t.Work.Ranks, t.Work.Limit, " ", *t.Said.Exit, t.Said.Nodes, t.Said.Samples), err
	}, "[hostname] 2 10m0s 0 [n2] [{rate 2.5 GB/s}]"},
	{"00005", "which external clusters answered", func(ctx context.Context, tx *core.Tx) (any, error) {
		all, err := external.List(ctx, tx)
		said := ""
		for _, c := range all {
			said += fmt.Sprint(c.Name, " ", c.Phase, " ", c.Asked(), " ", c.PhaseAt.UnixMilli(), "; ")
		}
		return said, err
	}, "changed ready false 3000; lost degraded true 2000; new pending false 1000; tier0 ready true 1760000001000; "},
}

func settleAsItIs(ctx context.Context, s *core.Store, c core.Claim) error {
	return s.Update(ctx, func(tx *core.Tx) error {
		life, err := lifeOf(ctx, tx, c)
		if err == nil {
			err = tx.Hold(ctx, c)
		}
		if err == nil {
			err = tx.Settle(ctx, c, core.Settlement{Phase: life.Phase, Reason: life.Reason, Never: true})
		}
		return err
	})
}

func lifeOf(ctx context.Context, tx *core.Tx, c core.Claim) (life core.Life, err error) {
	switch c.Kind {
	case cluster.Kind:
		row, err := cluster.Get(ctx, tx, c.ID)
		return row.Life, err
	case node.Kind:
		row, err := node.Get(ctx, tx, c.ID)
		return row.Life, err
	case machine.Kind:
		row, err := machine.Get(ctx, tx, c.ID)
		return row.Life, err
	case snapshot.Kind:
		row, err := snapshot.Get(ctx, tx, c.ID)
		return row.Life, err
	case task.Kind:
		row, err := task.Get(ctx, tx, c.ID)
		return row.Life, err
	case external.Kind:
		row, err := external.Get(ctx, tx, c.ID)
		return row.Life, err
	}
	row, err := fabrics.Get(ctx, tx, c.ID)
	return row.Life, err
}

// count is how many rows each table has.
func count(t *testing.T, db *sql.DB) map[string]int {
	t.Helper()
	query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		if rows, err = db.QueryContext(t.Context(),
			`SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]int{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		all[name] = 0
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var n int
		if err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM `+name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		all[name] = n
	}
	return all
}
