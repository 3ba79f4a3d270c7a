package lifecycle

import (
	"context"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
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
		w := Deps{DB: db, Providers: map[string]Provider{"local": {Limits: substrate.Deadlines{Silence: time.Second}}}}
		n := nodeView{listened: now.Add(-time.Hour), now: now}
		n.machine.Substrate = "local"
		n.Phase, n.PhaseAt = core.Ready, now.Add(-time.Hour)
		judge := w.alive(func(context.Context, nodeView) core.Outcome { t.Error("it is taken for well"); return core.Outcome{} })
		if err := db.Update(t.Context(), func(tx *core.Tx) error { return host.ClearAlarm(t.Context(), tx, "", "over") }); err != nil {
			t.Fatal(err)
		}
		if o := judge(t.Context(), n); o.Phase != "" || o.Err != nil {
			t.Errorf("%s: %s, %v", o.Phase, o.Text, o.Err)
		}
		n.listened = time.Time{} // as it would be, had nothing ended meanwhile
		err = db.View(t.Context(), func(tx *core.Tx) (err error) { n.listened, err = host.ListenedSince(t.Context(), tx, ""); return err })
		n.now = n.listened.Add(time.Minute)
		if o := judge(t.Context(), n); o.Phase != core.Failed || err != nil {
			t.Errorf("%s: %s, %v, %v", o.Phase, o.Text, o.Err, err)
		}
	})
}
