package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestAProofIsGoodOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		spend := func(hash string, until time.Duration) error {
			return s.Update(t.Context(), func(tx *store.Tx) error {
				now, err := tx.Now(t.Context())
				if err != nil {
					return err
				}
				return tx.SpendProof(t.Context(), hash, now.Add(until))
			})
		}
		if err := errors.Join(spend("a", time.Hour), spend("b", -time.Minute), spend("c", -2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := spend("a", time.Hour); !errors.Is(err, store.ErrExists) {
			t.Error("a proof twice:", err)
		}
		if err := spend("b", time.Hour); !errors.Is(err, store.ErrExists) {
			t.Error("a proof that has just ended is forgotten, while somebody may still be checking it:", err)
		}
		if err := spend("c", time.Hour); err != nil {
			t.Error("a proof that ended long ago is kept:", err)
		}
		// What fails later in the same transaction spends nothing.
		failed := s.Update(t.Context(), func(tx *store.Tx) error {
			return errors.Join(tx.SpendProof(t.Context(), "d", time.Now().Add(time.Hour)), context.Canceled)
		})
		if err := spend("d", time.Hour); failed == nil || err != nil {
			t.Error(failed, err)
		}
	})
}
