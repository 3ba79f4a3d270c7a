package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"muster/internal/spec"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

// TestWhatAClusterCostsToFindDoesNotGrowWithTheSite, which may have a thousand.
func TestWhatAClusterCostsToFindDoesNotGrowWithTheSite(t *testing.T) {
	s, db := server(t, 1)
	made := 0
	more := func(n int) {
		t.Helper()
		err := db.Update(t.Context(), func(tx *store.Tx) error {
			for range n {
				made++
				name := fmt.Sprintf("c%d", made)
				err := tx.AddCluster(t.Context(), store.Cluster{
					ID: "id" + name, Project: storetest.Project, Name: name, Spec: spec.Cluster{Name: name}, Image: "sha256:00",
					Credential: store.NewSecret([]byte("k")), CreatedBy: storetest.Admin,
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
	since := storetest.Costs(t, db)
	rows := func() int {
		t.Helper()
		since()
		for _, ref := range []string{"c1", storetest.Project + "%2Fc1", "idc1"} {
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
