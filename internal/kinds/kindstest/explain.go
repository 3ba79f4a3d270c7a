package kindstest

import (
	"slices"
	"strings"
	"testing"

	"muster/internal/core"
)

// UsesIndex fails the test unless the database goes about a query by an index, or by one of several ("a|b") that begin with the
// same columns, among which it may choose. PostgreSQL is told that tables are large: it reads
// small ones as a whole.
func UsesIndex(t testing.TB, s *core.Store, index, query string, args ...any) {
	t.Helper()
	explain, line := "EXPLAIN QUERY PLAN ", func(r core.Scanner) (text string, err error) {
		var id, parent, unused int
		err = r.Scan(&id, &parent, &unused, &text)
		return text, err
	}
	if s.Shared() {
		explain, line = "EXPLAIN ", core.Value[string]
	}
	err := s.View(t.Context(), func(tx *core.Tx) error {
		if s.Shared() {
			if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off"); err != nil {
				return err
			}
		}
		plan, err := core.List(t.Context(), tx, line, explain+query, args...)
		used := func(name string) bool { return strings.Contains(strings.Join(plan, "\n"), name) }
		if err == nil && !slices.ContainsFunc(strings.Split(index, "|"), used) {
			t.Errorf("%s is not used:\n%s", index, strings.Join(plan, "\n"))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
