package rotation_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/kindstest"
)

func TestWhatAnAgentLivedByIsForgottenWithIt(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		sleeper(t, s, url)
		update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := authority.SaveTrust(ctx, tx, authority.Trust{Subject: "gone", Boot: 1, Agents: 1}); err != nil {
				return err
			}
			if err := authority.ForgetTrust(ctx, tx); err != nil {
				return err
			}
			all, err := authority.Dependents(ctx, tx)
			if err != nil || len(all) != 1 || all[0].Agents != 1 {
				t.Errorf("%+v %v", all, err)
			}
			return err
		})
		var left int
		if err := open(t, url).QueryRow(`SELECT count(*) FROM agent_trust`).Scan(&left); err != nil || left != 1 {
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
