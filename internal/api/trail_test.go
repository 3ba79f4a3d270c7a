package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/person"
)

// entries is the audit log, newest first.
func entries(t *testing.T, db *core.Store) (all []person.Entry) {
	t.Helper()
	if err := db.View(t.Context(), func(tx *core.Tx) (err error) {
		all, err = person.Entries(context.Background(), tx, person.EntriesOf{Limit: 1 << 20})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestReadsThatComeAgainAreWrittenOnce(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)
	for range 20 {
		wants(t, as(t, s, "nobody", "GET", "/v1/machines", ""), 403)
		wants(t, as(t, s, "viewer", "GET", "/v1/machines", ""), 403)
		wants(t, as(t, s, "nobody", "DELETE", "/v1/clusters/aero%2Fcfd", ""), 404)
	}
	wants(t, as(t, s, "nobody", "GET", "/v1/clusters/aero%2Fcfd", ""), 404)
	count := map[string]int{}
	for _, e := range entries(t, db) {
		count[e.Person+" "+e.Action]++
	}
	for what, want := range map[string]int{"nobody list-machines": 1, "viewer list-machines": 1, "nobody get-cluster": 1,
		"nobody delete-cluster": 20} {
		if count[what] != want {
			t.Errorf("%s: %d rows, and %d are wanted", what, count[what], want)
		}
	}
}

func TestWhoAsksAndAsksLeavesFewRows(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)
	refused, began := 0, time.Now()
	for i := range 3200 {
		if as(t, s, "nobody", "DELETE", fmt.Sprintf("/v1/clusters/made-up-%d", i), "").status == 429 {
			refused++
		}
	}
	rows, most := len(entries(t, db)), 3000+int(time.Since(began).Seconds())+1 // one more each second
	if rows > most || rows+refused != 3200 {
		t.Errorf("of 3200 requests that change something %d were refused, and %d are written down, instead of at most %d", refused,
			rows, most)
	}
	wants(t, as(t, s, "nobody", "GET", "/v1/machines", ""), 403)
	wants(t, as(t, s, "viewer", "DELETE", "/v1/clusters/aero%2Fcfd", ""), 403)
}

func TestWhatCannotBeWrittenDownIsNotDone(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)
	rename := func(from, to string) {
		t.Helper()
		if err := db.Update(t.Context(), func(tx *core.Tx) error {
			_, err := tx.Exec(t.Context(), `ALTER TABLE `+from+` RENAME TO `+to)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	rename("audit", "elsewhere") // as good as a disk that is full
	wants(t, as(t, s, "viewer", "DELETE", "/v1/clusters/aero%2Fcfd", ""), 403)
	for range 3 {
		wants(t, as(t, s, "member", "DELETE", "/v1/clusters/aero%2Fcfd", ""), 503, "the audit log cannot be written")
		wants(t, as(t, s, "member", "GET", "/v1/clusters", ""), 503)
	}
	rename("elsewhere", "audit")
	wants(t, as(t, s, "member", "DELETE", "/v1/clusters/aero%2Fcfd", ""), 202)
	var told []string
	for _, e := range entries(t, db) {
		told = append(told, e.Person+" "+e.Action+" "+e.Outcome)
	}
	if got := strings.Join(told, ", "); len(told) != 2 || !strings.Contains(got, "viewer delete-cluster 403") ||
		!strings.Contains(got, "member delete-cluster 202") {
		t.Errorf("the log says %s", got)
	}
}
