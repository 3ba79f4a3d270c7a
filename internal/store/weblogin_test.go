package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"muster/internal/access"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestAWebLoginIsOneCodeThenOneCookieAndEndsWithItsToken(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addCluster(t, s, "c1", "hello")
		jupyter := store.WebLogin{Token: "t-laptop", Cluster: "c1", App: "jupyter"}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			life := store.Token{ID: "t-laptop", Person: "admin", Name: "laptop", Kind: store.APIToken, Scope: access.Whole}
			if err := tx.AddToken(ctx, store.HashToken("token"), life, time.Minute); err != nil {
				return err
			}
			if err := tx.AddWebLogin(ctx, "code", jupyter, time.Minute); err != nil {
				return err
			}
			return tx.AddWebLogin(ctx, "late", jupyter, 0)
		})
		use := func(code, cookie string) error {
			return s.Update(t.Context(), func(tx *store.Tx) error { return tx.UseWebCode(t.Context(), code, cookie, time.Hour) })
		}
		holder := func(cookie string) (who string, left time.Duration, err error) {
			err = s.View(t.Context(), func(tx *store.Tx) error {
				c, l, ends, err := tx.WebLogin(t.Context(), cookie)
				if err == nil && l != jupyter {
					t.Errorf("it opens %+v", l)
				}
				who, left = c.Name, ends
				return err
			})
			return who, left, err
		}
		if _, _, err := holder("code"); !errors.Is(err, store.ErrNotFound) {
			t.Error("a code works as a cookie:", err)
		}
		for _, wrong := range []string{"late", "none", ""} {
			if err := use(wrong, "x"); !errors.Is(err, store.ErrNotFound) {
				t.Error(wrong, err)
			}
		}
		if err := use("code", "cookie"); err != nil {
			t.Fatal(err)
		}
		if err := use("code", "again"); !errors.Is(err, store.ErrNotFound) {
			t.Error("a code works twice:", err)
		}
		if err := use("cookie", "again"); !errors.Is(err, store.ErrNotFound) {
			t.Error("a cookie works as a code:", err)
		}
		if who, left, err := holder("cookie"); who != "admin" || left <= 0 || left > time.Minute || err != nil {
			t.Error("it outlives its token:", who, left, err)
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.RemoveToken(ctx, "admin", "t-laptop") })
		if _, _, err := holder("cookie"); !errors.Is(err, store.ErrNotFound) {
			t.Error("it is good without its token:", err)
		}
	})
}
