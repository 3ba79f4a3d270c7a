package machine_test

import (
	"context"
	"errors"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
)

// TestABootThatWaitsIsBegunOnce: its machine goes off first, and each step asks again whether it was overtaken.
func TestABootThatWaitsIsBegunOnce(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return machine.StartInspection(ctx, tx, "m1", false)
		})
		begin := func(number int64, image string, want bool) {
			t.Helper()
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				begun, err := machine.BeginBoot(ctx, tx, machine.Boot{MachineID: "m1", Subject: "m1", Number: number,
					Image: image})
				if begun != want {
					t.Errorf("boot %d: begun %v", number, begun)
				}
				return err
			})
		}
		is := func(number int64, image, detail string) {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
				b, err := machine.BootOn(ctx, tx, "m1")
				if b.Number != number || b.Image != image || b.Detail != detail {
					t.Errorf("%+v", b)
				}
				return err
			})
		}
		begin(1, "a", true)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			_, err := machine.MarkBoot(ctx, tx, "m1", 1, "script", "asked")
			return err
		})
		begin(1, "b", true)
		is(1, "b", "asked")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return machine.StartInspection(ctx, tx, "m1", true)
		})
		begin(1, "c", false)
		is(1, "b", "asked")
		begin(2, "d", true)
		is(2, "d", "")
	})
}

func TestAMachineIsToBeOffSinceTheFirstTime(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			before, err1 := machine.OffSince(ctx, tx, "m1")
			err2 := machine.WaitForOff(ctx, tx, "m1", true)
			_, err3 := tx.Exec(ctx, `UPDATE machine SET off_since = off_since - 1000 WHERE id = 'm1'`)
			first, err4 := machine.OffSince(ctx, tx, "m1")
			err5 := machine.WaitForOff(ctx, tx, "m1", true)
			again, err6 := machine.OffSince(ctx, tx, "m1")
			err7 := machine.WaitForOff(ctx, tx, "m1", false)
			after, err8 := machine.OffSince(ctx, tx, "m1")
			if !before.IsZero() || first.IsZero() || !again.Equal(first) || !after.IsZero() {
				t.Errorf("%s, %s, %s, %s", before, first, again, after)
			}
			return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8)
		})
	})
}
