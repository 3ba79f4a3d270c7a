package kinds_test

import (
	"context"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
)

func TestADayIsRememberedMinuteByMinute(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		day := func(step time.Duration) (all []kinds.Moment) {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				all, err = kinds.Day(ctx, tx, step)
				return err
			})
			return all
		}
		note := func() {
			t.Helper()
			if err := kinds.Note(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		age := func(by time.Duration) { // all that is remembered
			t.Helper()
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE census SET at = $1 - at`, by.Milliseconds()) // none is where another was
				if err == nil {
					_, err = tx.Exec(ctx, `UPDATE census SET at = -at`)
				}
				return err
			})
		}
		note()
		kindstest.AddMachines(t, s, 1)
		note() // of the same minute, unless that has just ended
		if all := day(time.Minute); len(all) == 0 || len(all) > 2 || len(all[0].Phases[machine.Kind]) != 0 ||
			time.Since(all[0].At) > 2*time.Minute {
			t.Fatalf("%+v", all)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			_, err := tx.Exec(ctx, `DELETE FROM census`)
			return err
		})
		for range 12 {
			note()
			age(time.Minute)
		}
		all := day(time.Minute)
		if len(all) < 12 || len(all) > 13 || all[0].At.After(all[1].At) || all[0].Phases[machine.Kind][machine.Enrolled] != 1 {
			t.Fatalf("%d moments: %+v", len(all), all)
		}
		if few := day(5 * time.Minute); len(few) < 3 || len(few) > 4 || !few[len(few)-1].At.Equal(all[len(all)-1].At) {
			t.Errorf("%d moments of five minutes: %+v", len(few), few)
		}
		age(24 * time.Hour)
		if len(day(time.Minute)) != 0 {
			t.Error("what is older than a day is shown")
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return kinds.Forget(ctx, tx, time.Hour, inventory.Jobs{Keep: time.Hour, PerProject: 1})
		})
		note()
		var left int
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			return tx.Row(ctx, `SELECT COUNT(*) FROM census`).Scan(&left)
		})
		if left != 1 {
			t.Errorf("%d moments are kept", left)
		}
	})
}
