package host_test

import (
	"context"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
)

func TestAnAcknowledgementIsSaidAgainTakenBackAndEnds(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		known := func() (all map[string]host.Acknowledgement) {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				all, err = host.Acknowledgements(ctx, tx)
				return err
			})
			return all
		}
		say := func(alarm, person string, life time.Duration) (k host.Acknowledgement) {
			t.Helper()
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				now, err := tx.Now(ctx)
				if err != nil {
					return err
				}
				k = host.Acknowledgement{Alarm: alarm, Person: person, At: now, Seen: now.Add(-time.Minute), Until: now.Add(life)}
				return host.Acknowledge(ctx, tx, k)
			})
			return k
		}
		back := func(alarm string, want bool) {
			t.Helper()
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				taken, err := host.TakeBack(ctx, tx, alarm)
				if taken != want {
					t.Errorf("%s is taken back: %t", alarm, taken)
				}
				return err
			})
		}
		say("nodes-lost:fabric ib0", "ada", time.Hour)
		bob := say("nodes-lost:fabric ib0", "bob", time.Hour)
		say("disk-full:vm", "ada", 0)
		if all := known(); len(all) != 1 || all["nodes-lost:fabric ib0"] != bob {
			t.Errorf("%+v, want %+v alone", all, bob)
		}
		back("disk-full:vm", false) // it has ended
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return host.ForgetAcknowledgements(ctx, tx) })
		back("nodes-lost:fabric ib0", true)
		back("nodes-lost:fabric ib0", false)
		var left int
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			return tx.Row(ctx, `SELECT COUNT(*) FROM acknowledgement`).Scan(&left)
		})
		if left != 0 {
			t.Errorf("%d are left", left)
		}
	})
}
