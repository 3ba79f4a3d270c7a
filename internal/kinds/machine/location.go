package machine

import (
	"context"
	"fmt"

	"muster/internal/core"
	"muster/internal/inventory"
)

// TakenError says which machine stands where another one was to.
type TakenError struct {
	Machine string
	At      inventory.Location
}

func (e TakenError) Error() string { return fmt.Sprintf("machine %s stands in %s", e.Machine, e.At) }

// Is says that it is a core.ErrExists.
func (e TakenError) Is(target error) bool { return target == core.ErrExists }

// LockPlaces makes everybody else who places a machine wait until the transaction ends.
func LockPlaces(ctx context.Context, tx *core.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE site_lock SET taken = taken + 1`)
	return core.Wrapf(err, "lock places")
}

// Place notes where a machine stands, or that it stands nowhere that is known. It fails with a TakenError.
func Place(ctx context.Context, tx *core.Tx, id string, at inventory.Location) error {
	if err := LockPlaces(ctx, tx); err != nil {
		return err
	}
	scan := func(r core.Scanner) (e TakenError, err error) {
		return e, r.Scan(&e.Machine, &e.At.Rack, &e.At.Unit, &e.At.Height, &e.At.Slot)
	}
	others, err := core.List(ctx, tx, scan, `SELECT name, rack, unit, height, slot FROM machine WHERE rack = $1 AND rack <> ''
		AND id <> $2 ORDER BY unit, slot`, at.Rack, id)
	if err != nil {
		return fmt.Errorf("list rack %s: %w", at.Rack, err)
	}
	for _, other := range others {
		if at.Overlaps(other.At) {
			return other
		}
	}
	_, err = tx.Exec(ctx, `UPDATE machine SET rack = $1, unit = $2, height = $3, slot = $4 WHERE id = $5`, at.Rack, at.Unit,
		at.Height, at.Slot, id)
	return core.Wrapf(err, "place machine %s", id)
}
