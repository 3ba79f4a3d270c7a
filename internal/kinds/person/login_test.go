package person_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
)

func TestAProofIsGoodOnce(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		spend := func(hash string, until time.Duration) error {
			return s.Update(t.Context(), func(tx *core.Tx) error {
				now, err := tx.Now(t.Context())
				if err != nil {
					return err
				}
				return person.SpendProof(t.Context(), tx, hash, now.Add(until))
			})
		}
		if err := errors.Join(spend("a", time.Hour), spend("b", -time.Minute), spend("c", -2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := spend("a", time.Hour); !errors.Is(err, core.ErrExists) {
			t.Error("a proof twice:", err)
		}
		if err := spend("b", time.Hour); !errors.Is(err, core.ErrExists) {
			t.Error("a proof that has just ended is forgotten, while somebody may still be checking it:", err)
		}
		if err := spend("c", time.Hour); err != nil {
			t.Error("a proof that ended long ago is kept:", err)
		}
		// What fails later in the same transaction spends nothing.
		failed := s.Update(t.Context(), func(tx *core.Tx) error {
			return errors.Join(person.SpendProof(t.Context(), tx, "d", time.Now().Add(time.Hour)), context.Canceled)
		})
		if err := spend("d", time.Hour); failed == nil || err != nil {
			t.Error(failed, err)
		}
	})
}
