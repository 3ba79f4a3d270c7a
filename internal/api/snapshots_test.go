package api_test

import (
	"context"
	"fmt"
	"testing"

	"muster/internal/api"
	"muster/internal/core"
	"muster/internal/kinds/snapshot"
	"muster/internal/kit/space"
)

func TestSnapshotsOfAProjectHaveAShareOfTheDisk(t *testing.T) {
	s, db := server(t, 4, func(a *api.API) {
		a.Disk = func() (space.Disk, error) { return space.Disk{Size: 500 << 30, Reserve: 100 << 30}, nil } // 100 GiB a project
		a.HomeUsage = func(context.Context, string) (int64, int64, error) { return 50 << 30, 30 << 30, nil }
	})
	tenants(t, db)
	enterable(t, db)
	save := func(name string, want int, say ...string) {
		t.Helper()
		wants(t, as(t, s, "member", "POST", "/v1/clusters/aero%2Fcfd/snapshots", fmt.Sprintf(`{"name": %q}`, name)), want, say...)
	}
	saved(t, db, "s-aero")
	for i := range 3 {
		save(fmt.Sprint("at-once-", i), 202)
	}
	save("one-more", 409, "project aero would have 122881 MiB of snapshots with this one, and its share of the disk is 102400 MiB",
		"muster snapshots delete")
	wants(t, as(t, s, "olga", "POST", "/v1/clusters/bio%2Fcfd/snapshots", `{"name": "others-go-on"}`), 202)
}

func TestAProjectHasABoundedNumberOfSnapshots(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)
	enterable(t, db)
	save := func(name string) reply {
		return as(t, s, "member", "POST", "/v1/clusters/aero%2Fcfd/snapshots", fmt.Sprintf(`{"name": %q}`, name))
	}
	for i := range 3 {
		wants(t, save(fmt.Sprint("at-once-", i)), 202)
	}
	wants(t, save("more"), 409, "has 4 snapshots that are being made")
	for _, s := range list(t, db) {
		saved(t, db, s.ID)
	}
	for i := range 96 {
		made := save(fmt.Sprint("n", i))
		wants(t, made, 202)
		saved(t, db, made.body["id"].(string))
	}
	wants(t, save("more"), 409, "has 100 snapshots")
}

// saved makes a snapshot one that is there, of one MiB.
func saved(t *testing.T, db *core.Store, id string) {
	t.Helper()
	change(t, db, func(ctx context.Context, tx *core.Tx) error { return snapshot.SetSize(ctx, tx, id, 1<<20) })
}

func list(t *testing.T, db *core.Store) (all []snapshot.Snapshot) {
	t.Helper()
	change(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
		all, err = snapshot.List(ctx, tx, "aero")
		return err
	})
	return all
}
