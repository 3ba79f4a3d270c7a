package rotation_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestWhatAnAgentLivedByIsForgottenWithIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		sleeper(t, s, url)
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.SaveTrust(ctx, store.Trust{Subject: "gone", Boot: 1, Agents: 1}); err != nil {
				return err
			}
			if err := tx.ForgetTrust(ctx); err != nil {
				return err
			}
			all, err := tx.Dependents(ctx)
			if err != nil || len(all) != 1 || all[0].Agents != 1 {
				t.Errorf("%+v %v", all, err)
			}
			return err
		})
		var left int
		if err := open(t, url).QueryRow(`SELECT count(*) FROM trust`).Scan(&left); err != nil || left != 1 {
			t.Error(left, err)
		}
	})
}

func open(t *testing.T, url string) *sql.DB {
	t.Helper()
	driver := "sqlite"
	if strings.Contains(url, "://") {
		driver = "pgx"
	}
	db := must(sql.Open(driver, url))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
