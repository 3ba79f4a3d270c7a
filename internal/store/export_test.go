package store

import "context"

// Exec lets tests go past the code, to the constraints of the database.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) error {
	_, err := tx.exec(ctx, query, args...)
	return err
}
