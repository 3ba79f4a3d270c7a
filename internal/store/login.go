package store

import (
	"context"
	"fmt"
	"time"
)

// SpendProof notes that the proof of which hash is the hash, good until then, was used; ErrExists if it was before.
// Those that ended an hour ago, and so pass no check any more, are forgotten.
func (tx *Tx) SpendProof(ctx context.Context, hash string, until time.Time) error {
	if _, err := tx.exec(ctx, `DELETE FROM proof WHERE expires_at < now_ms() - 3600000`); err != nil {
		return fmt.Errorf("forget old proofs: %w", err)
	}
	spent, err := tx.exec(ctx, `INSERT INTO proof (hash, expires_at) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING`, hash, until.UnixMilli())
	if err == nil && spent == 0 {
		err = ErrExists
	}
	if err != nil {
		return fmt.Errorf("spend a proof: %w", err)
	}
	return nil
}
