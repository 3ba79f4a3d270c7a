package core

import "context"

// Forget carries out statements, in their order, for each ID that a query finds, as $1: rows of what is gone, and what belongs
// to them. The query says how many at most, which bounds how long others wait.
func (tx *Tx) Forget(ctx context.Context, statements []string, query string, args ...any) error {
	ids, err := List(ctx, tx, Value[string], query, args...)
	if err != nil {
		return err
	}
	for _, id := range ids {
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement, id); err != nil {
				return err
			}
		}
	}
	return nil
}
