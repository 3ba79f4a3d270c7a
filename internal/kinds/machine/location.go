package machine

import (
	"context"
	"fmt"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kit/wrap"
)

// taken says which machine stands where another one was to. It is a core.ErrExists.
type taken struct {
	machine string
	at      inventory.Location
}

func (t taken) Error() string { return fmt.Sprintf("machine %s stands in %s", t.machine, t.at) }

func (t taken) Is(target error) bool { return target == core.ErrExists }

// Place notes where a machine stands, or that it stands in no rack that is known. core.ErrExists if another one stands there: the
// error names it.
func Place(ctx context.Context, tx *core.Tx, id string, at inventory.Location) error {
	if err := tx.LockSite(ctx); err != nil {
		return err
	}
	scan := core.Fields(func(t *taken) []any { return []any{&t.machine, &t.at.Rack, &t.at.Unit, &t.at.Height, &t.at.Slot} })
	others, err := core.List(ctx, tx, scan, `SELECT name, rack, unit, height, slot FROM machine WHERE rack = $1 AND rack <> ''
		AND id <> $2 ORDER BY unit, slot`, at.Rack, id)
	if err != nil {
		return fmt.Errorf("list rack %s: %w", at.Rack, err)
	}
	for _, other := range others {
		if at.Overlaps(other.at) {
			return other
		}
	}
	_, err = tx.Exec(ctx, `UPDATE machine SET rack = $1, unit = $2, height = $3, slot = $4 WHERE id = $5`, at.Rack, at.Unit,
		at.Height, at.Slot, id)
	return wrap.Errorf(err, "place machine %s", id)
}
