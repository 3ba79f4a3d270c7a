package kinds_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/kinds/snapshot"
	"muster/internal/protocol"
)

func TestWhatHasLongBeenGoneIsForgotten(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 4)
		for _, c := range []string{"lives", "kept", "old", "new"} {
			kindstest.AddCluster(t, s, c, c)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			err := errors.Join(kindstest.AddNode(ctx, tx, "lives-1", "lives", "n1", 3, "m1"),
				kindstest.AddNode(ctx, tx, "lives-0", "lives", "n2", 4, "m2"),
				kindstest.AddNode(ctx, tx, "old-1", "old", "n1", 3, "m3"),
				kindstest.AddNode(ctx, tx, "new-1", "new", "n1", 3, "m4"),
				node.SaveReport(ctx, tx, "old-1", protocol.Report{Boot: 1}),
				snapshot.Add(ctx, tx, snapshot.Snapshot{ID: "s1", Project: "default", Name: "s1", ClusterID: "kept"}))
			for _, id := range []string{"lives-0", "old-1", "new-1"} {
				n, failed := node.Get(ctx, tx, id)
				err = errors.Join(err, failed, node.LeaveMachine(ctx, tx, n))
			}
			for _, statement := range []string{
				`UPDATE cluster SET phase = 'deleted', phase_at = now_ms() - 7200000 WHERE id IN ('kept', 'old', 'new')`,
				`UPDATE node SET phase_at = now_ms() - 7200000 WHERE id IN ('lives-0', 'lives-1', 'old-1')`,
			} {
				_, failed := tx.Exec(ctx, statement)
				err = errors.Join(err, failed)
			}
			return err
		})
		left := func(when string, wanted map[string]bool) {
			t.Helper()
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return kinds.Forget(ctx, tx, time.Hour, inventory.Jobs{Keep: time.Hour, PerProject: 1})
			})
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
				for id, want := range wanted {
					_, isNode := node.Get(ctx, tx, id)
					_, isCluster := cluster.Get(ctx, tx, id)
					if got := isNode == nil || isCluster == nil; got != want {
						t.Errorf("%s: %s is there: %v", when, id, got)
					}
				}
				return nil
			})
		}
		left("two hours after they went", map[string]bool{"lives": true, "lives-1": true, "lives-0": false, "old": false,
			"old-1": false, "new": true, "new-1": true, "kept": true})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE snapshot SET phase = 'deleted', phase_at = now_ms() - 7200000`)
			return err
		})
		left("with the last snapshot", map[string]bool{"kept": false, "lives": true})
	})
}
