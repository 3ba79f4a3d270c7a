package gateway

import (
	"context"
	"fmt"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
)

// TestALogInReadsTheClusterThatItNames: what it costs does not grow with the clusters of a project.
func TestALogInReadsTheClusterThatItNames(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		db := kindstest.Open(t, url)
		for i := range 20 {
			kindstest.AddCluster(t, db, fmt.Sprintf("c%d", i), fmt.Sprintf("cfd%d", i))
		}
		places := func(projects []string, name string) []Place {
			var all []Place
			kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
				all, err = Clusters{}.Places(ctx, tx, projects, name)
				return err
			})
			return all
		}
		since := kindstest.Costs(t, db)
		if got := places([]string{kindstest.Project}, "cfd7"); len(got) != 1 || got[0].ID != "c7" {
			t.Errorf("%v", got)
		}
		if cost := since(); cost.Rows != 1 {
			t.Errorf("%d rows were read", cost.Rows)
		}
		if got := places([]string{"other"}, "cfd7"); len(got) != 0 {
			t.Errorf("a project sees another's: %v", got)
		}
		if got := places([]string{kindstest.Project}, ""); len(got) != 20 {
			t.Errorf("%d of 20", len(got))
		}
	})
}
