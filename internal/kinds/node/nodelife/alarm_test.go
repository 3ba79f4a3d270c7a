package nodelife_test

import (
	"context"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/kinds/node/nodelife"
	"muster/internal/protocol"
)

// A controller that stalls reads a node, and only then what was heard meanwhile of all nodes: none of them is silent any more.
func TestANodeThatWasHeardSinceItWasReadIsNotLost(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		db := kindstest.Open(t, url)
		kindstest.AddMachines(t, db, 1)
		kindstest.AddCluster(t, db, "c1", "hello")
		kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
			if err := kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 1, "m1"); err != nil {
				return err
			}
			if err := host.Listen(ctx, tx, "", "test"); err != nil {
				return err
			}
			return node.SaveReport(ctx, tx, "n1", protocol.Report{Boot: 1, Checks: []protocol.Check{{Name: "slurmd", OK: true}}})
		})
		var n node.Node
		var listened time.Time
		kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
			if n, err = node.Get(ctx, tx, "n1"); err == nil {
				listened, err = host.ListenedSince(ctx, tx, "")
			}
			return err
		})
		d := life.Deps{DB: db, Providers: map[string]life.Provider{"local": {Limits: substrate.Deadlines{Silence: time.Second}}}}
		n.Boot, n.Phase, n.PhaseAt = 1, core.Ready, listened.Add(-time.Hour)
		for heard, want := range map[time.Duration]core.Phase{0: core.Failed, time.Minute: ""} {
			kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE observed SET seen_at = $1, well_at = $1`, listened.Add(heard).UnixMilli())
				return err
			})
			o := nodelife.Alive(t.Context(), d, n, "local", listened, listened.Add(time.Minute),
				func() { t.Error("it is taken for well") })
			if o.Phase != want || o.Err != nil {
				t.Errorf("heard after %s: %s: %s, %v", heard, o.Phase, o.Text, o.Err)
			}
		}
	})
}

// An alarm may end between the moments at which a node was read and at which it is judged.
func TestANodeThatWasReadBeforeAnAlarmEndedHasItsTimeAgain(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		db := kindstest.Open(t, url)
		var now time.Time
		err := db.Update(t.Context(), func(tx *core.Tx) (err error) {
			if err = host.RaiseAlarm(t.Context(), tx, "", "all are silent"); err == nil {
				err = host.Listen(t.Context(), tx, "", "test")
			}
			now, _ = tx.Now(t.Context())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		d := life.Deps{DB: db, Providers: map[string]life.Provider{"local": {Limits: substrate.Deadlines{Silence: time.Second}}}}
		n := node.Node{Life: core.Life{Phase: core.Ready, PhaseAt: now.Add(-time.Hour)}}
		judge := func(listened, now time.Time) core.Outcome {
			return nodelife.Alive(t.Context(), d, n, "local", listened, now, func() { t.Error("it is taken for well") })
		}
		if err := db.Update(t.Context(), func(tx *core.Tx) error {
			return host.ClearAlarm(t.Context(), tx, "", "over")
		}); err != nil {
			t.Fatal(err)
		}
		if o := judge(now.Add(-time.Hour), now); o.Phase != "" || o.Err != nil {
			t.Errorf("%s: %s, %v", o.Phase, o.Text, o.Err)
		}
		var listened time.Time // as it would be, had nothing ended meanwhile
		err = db.View(t.Context(), func(tx *core.Tx) (err error) {
			listened, err = host.ListenedSince(t.Context(), tx, "")
			return err
		})
		if o := judge(listened, listened.Add(time.Minute)); o.Phase != core.Failed || err != nil {
			t.Errorf("%s: %s, %v, %v", o.Phase, o.Text, o.Err, err)
		}
	})
}
