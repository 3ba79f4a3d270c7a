package snapshot_test

import (
	"testing"

	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/snapshot"
)

func TestSnapshotsOfANameAreFoundByIndex(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s, index := kindstest.Open(t, url), "snapshot_by_name"
		if s.Shared() {
			index += "|snapshot_name" // PostgreSQL holds them for alike while there are no rows
		}
		kindstest.UsesIndex(t, s, index, snapshot.NamedQuery, "before")
	})
}
