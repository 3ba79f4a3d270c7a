package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/spec"
)

// TestWhatAClusterCostsToFindDoesNotGrowWithTheSite, which may have a thousand.
func TestWhatAClusterCostsToFindDoesNotGrowWithTheSite(t *testing.T) {
	s, db := server(t, 1)
	made := 0
	more := func(n int) {
		t.Helper()
		err := db.Update(t.Context(), func(tx *core.Tx) error {
			for range n {
				made++
				name := fmt.Sprintf("c%d", made)
				err := cluster.Add(t.Context(), tx, cluster.Cluster{
					ID: "id" + name, Project: kindstest.Project, Name: name, Spec: spec.Cluster{Name: name}, Image: "sha256:00",
					Credential: core.NewSecret([]byte("k")), CreatedBy: kindstest.Admin,
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	more(2)
	since := kindstest.Costs(t, db)
	rows := func() int {
		t.Helper()
		since()
		for _, ref := range []string{"c1", kindstest.Project + "%2Fc1", "idc1"} {
			if r := call(t, s, "GET", "/v1/clusters/"+ref, ""); r.status != http.StatusOK {
				t.Fatalf("%s: %d %s", ref, r.status, r.text)
			}
		}
		return since().Rows
	}
	few := rows()
	more(60)
	if many := rows(); many != few {
		t.Errorf("%d rows are read with 62 clusters, %d with 2", many, few)
	}
}
