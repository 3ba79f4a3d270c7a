// Package testall marks tests that `make test` leaves to `make test-all`.
package testall

import "testing"

// Only says that a test, or the part of one that calls it, belongs to `make test-all`: a short run (go test -short), which
// `make test` is, skips it. It is the first line of what it marks. A test of a promise that nothing else in `make test` holds
// carries no mark, however long it takes.
func Only(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make test-all") // scripts/left.sh counts these
	}
}
