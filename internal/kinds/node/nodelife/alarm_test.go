package nodelife_test

import (
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/kinds/node/nodelife"
)

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
