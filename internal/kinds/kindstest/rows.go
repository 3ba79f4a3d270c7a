package kindstest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// RawDatabase is the database at a URL, past core.
func RawDatabase(t testing.TB, url string) *sql.DB {
	t.Helper()
	driver, source := "sqlite", url+"?_pragma=synchronous(OFF)" // it may be lost
	if strings.Contains(url, "://") {
		driver, source = "pgx", url
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// Copy returns the URL of a copy of a database that is not in use now, for the length of a test.
func Copy(t *testing.T, url string) string {
	t.Helper()
	if at, ok := strings.CutPrefix(url, "postgres://postgres@/"); ok {
		name, _, _ := strings.Cut(at, "?")
		return database(t, name)
	}
	rows, err := os.ReadFile(url)
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err == nil {
		err = os.WriteFile(copied, rows, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return copied
}

// Update runs f in one transaction, which must succeed.
func Update(t *testing.T, s *core.Store, f func(ctx context.Context, tx *core.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

// View runs f on a snapshot, which must succeed.
func View(t *testing.T, s *core.Store, f func(ctx context.Context, tx *core.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

// AddMachines adds machines m1, m2, … of this host.
func AddMachines(t *testing.T, s *core.Store, n int) {
	t.Helper()
	Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		for i := range n {
			id := fmt.Sprintf("m%d", i+1)
			m := inventory.Machine{ID: id, Name: "local-" + id[1:], Substrate: "local",
				Facts: inventory.Facts{Arch: "amd64", NUMA: []inventory.NUMANode{{CPUs: "0-1"}}}}
			if err := machine.Add(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddCluster adds a cluster to the default project.
func AddCluster(t *testing.T, s *core.Store, id, name string) {
	t.Helper()
	Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		return cluster.Add(ctx, tx, cluster.Cluster{ID: id, Project: "default", Name: name, Spec: spec.Cluster{Name: name},
			Image: "sha256:00", Credential: core.NewSecret([]byte("secret")), CreatedBy: "admin"})
	})
}

// AddNode adds a node of a cluster on a machine, with its seat.
func AddNode(ctx context.Context, tx *core.Tx, id, clusterID, name string, slot int, machine string) error {
	if err := cluster.AddSeat(ctx, tx, clusterID, cluster.Seat{Name: name, Slot: slot}); err != nil {
		return err
	}
	return node.Add(ctx, tx, node.Node{ID: id, Cluster: clusterID, Name: name, Role: protocol.Compute, Queue: "main",
		Class: "local", MachineID: machine, Machine: machine})
}
