package person

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// SpendProof notes that the proof with this hash, good until then, was used; core.ErrExists if it was before.
// Those that ended an hour ago, and so pass no check any more, are forgotten.
func SpendProof(ctx context.Context, tx *core.Tx, hash string, until time.Time) error {
	if _, err := tx.Exec(ctx, `DELETE FROM login_proof WHERE expires_at < now_ms() - 3600000`); err != nil {
		return fmt.Errorf("forget old proofs: %w", err)
	}
	spent, err := tx.Exec(ctx, `INSERT INTO login_proof (hash, expires_at) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING`, hash,
		until.UnixMilli())
	if err == nil && spent == 0 {
		err = core.ErrExists
	}
	return wrap.Errorf(err, "spend a proof")
}
