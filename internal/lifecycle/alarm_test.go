package lifecycle

import (
	"context"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

// An alarm may end between the moments at which a node was read and at which it is judged.
func TestANodeThatWasReadBeforeAnAlarmEndedHasItsTimeAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		db := storetest.Open(t, url)
		var now time.Time
		err := db.Update(t.Context(), func(tx *store.Tx) (err error) {
			if err = tx.RaiseAlarm(t.Context(), "", "all are silent"); err == nil {
				err = tx.Listen(t.Context(), "", "test")
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
		n.Phase, n.PhaseAt = store.Ready, now.Add(-time.Hour)
		judge := w.alive(func(context.Context, nodeView) Outcome { t.Error("it is taken for well"); return Outcome{} })
		if err := db.Update(t.Context(), func(tx *store.Tx) error { return tx.ClearAlarm(t.Context(), "", "over") }); err != nil {
			t.Fatal(err)
		}
		if o := judge(t.Context(), n); o.phase != "" || o.err != nil {
			t.Errorf("%s: %s, %v", o.phase, o.text, o.err)
		}
		n.listened = time.Time{} // as it would be, had nothing ended meanwhile
		err = db.View(t.Context(), func(tx *store.Tx) (err error) { n.listened, err = tx.ListenedSince(t.Context(), ""); return err })
		n.now = n.listened.Add(time.Minute)
		if o := judge(t.Context(), n); o.phase != store.Failed || err != nil {
			t.Errorf("%s: %s, %v, %v", o.phase, o.text, o.err, err)
		}
	})
}
