package person_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
)

func TestAWebLoginIsOneCodeThenOneCookieAndEndsWithItsToken(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddCluster(t, s, "c1", "hello")
		jupyter := person.WebLogin{Token: "t-laptop", Cluster: "c1", App: "jupyter"}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			life := person.Token{ID: "t-laptop", Person: "admin", Name: "laptop", Kind: person.APIToken, Scope: access.Whole}
			if err := person.AddToken(ctx, tx, person.HashToken("token"), life, time.Minute); err != nil {
				return err
			}
			if err := person.AddWebLogin(ctx, tx, "code", jupyter, time.Minute); err != nil {
				return err
			}
			return person.AddWebLogin(ctx, tx, "late", jupyter, 0)
		})
		use := func(code, cookie string) error {
			return s.Update(t.Context(), func(tx *core.Tx) error {
				return person.UseWebCode(t.Context(), tx, code, cookie, time.Hour)
			})
		}
		holder := func(cookie string) (who string, left time.Duration, err error) {
			err = s.View(t.Context(), func(tx *core.Tx) error {
				c, l, ends, err := person.FindWebLogin(t.Context(), tx, cookie)
				if err == nil && l != jupyter {
					t.Errorf("it opens %+v", l)
				}
				who, left = c.Name, ends
				return err
			})
			return who, left, err
		}
		if _, _, err := holder("code"); !errors.Is(err, core.ErrNotFound) {
			t.Error("a code works as a cookie:", err)
		}
		for _, wrong := range []string{"late", "none", ""} {
			if err := use(wrong, "x"); !errors.Is(err, core.ErrNotFound) {
				t.Error(wrong, err)
			}
		}
		if err := use("code", "cookie"); err != nil {
			t.Fatal(err)
		}
		if err := use("code", "again"); !errors.Is(err, core.ErrNotFound) {
			t.Error("a code works twice:", err)
		}
		if err := use("cookie", "again"); !errors.Is(err, core.ErrNotFound) {
			t.Error("a cookie works as a code:", err)
		}
		if who, left, err := holder("cookie"); who != "admin" || left <= 0 || left > time.Minute || err != nil {
			t.Error("it outlives its token:", who, left, err)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return person.RemoveToken(ctx, tx, "admin", "t-laptop")
		})
		if _, _, err := holder("cookie"); !errors.Is(err, core.ErrNotFound) {
			t.Error("it is good without its token:", err)
		}
	})
}

func TestAnAppsLoginEndsWithTheBrowserThatAskedForIt(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddCluster(t, s, "c1", "hello")
		exchanged := func(ctx context.Context, tx *core.Tx, name string, l person.WebLogin, life time.Duration) error {
			return errors.Join(person.AddWebLogin(ctx, tx, name+"-code", l, time.Minute),
				person.UseWebCode(ctx, tx, name+"-code", name, life))
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			token := person.Token{ID: "t-laptop", Person: "admin", Name: "laptop", Kind: person.APIToken, Scope: access.Whole}
			return errors.Join(person.AddToken(ctx, tx, person.HashToken("token"), token, time.Hour),
				exchanged(ctx, tx, "console", person.WebLogin{Token: "t-laptop"}, time.Minute),
				exchanged(ctx, tx, "app", person.WebLogin{Token: "t-laptop", Cluster: "c1", App: "jupyter", Browser: "console"},
					time.Hour))
		})
		found := func() (left time.Duration, err error) {
			err = s.View(t.Context(), func(tx *core.Tx) (err error) {
				_, _, left, err = person.FindWebLogin(t.Context(), tx, "app")
				return err
			})
			return left, err
		}
		if left, err := found(); err != nil || left > time.Minute {
			t.Errorf("it is good for %v, longer than its browser: %v", left, err)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return person.EndWebLogin(ctx, tx, "console") })
		if _, err := found(); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("its browser is signed out: %v", err)
		}
	})
}
