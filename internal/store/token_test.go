package store_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"muster/internal/access"
	"muster/internal/spec"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestTokensAndTheAuditLogGoByTheDatabasesClock(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		db, ctx := storetest.Open(t, url), t.Context()
		update := func(f func(*store.Tx) error) {
			t.Helper()
			if err := db.Update(ctx, f); err != nil {
				t.Fatal(err)
			}
		}
		token := func(id string) store.Token {
			return store.Token{ID: id, Person: storetest.Admin, Name: "x", Kind: store.APIToken, Scope: access.Whole}
		}
		update(func(tx *store.Tx) error {
			if err := tx.AddToken(ctx, "h1", token("hour"), time.Hour); err != nil {
				return err
			}
			tokens, err := tx.Tokens(ctx, storetest.Admin)
			if err != nil {
				return err
			}
			limited := token("limited")
			for _, k := range tokens {
				if k.ID == "hour" {
					limited.ExpiresAt = k.ExpiresAt
				}
			}
			if err := tx.AddToken(ctx, "h2", limited, 2*time.Hour); err != nil {
				return err
			}
			return tx.AddToken(ctx, "h3", token("over"), 0)
		})
		ends := map[string]time.Time{}
		update(func(tx *store.Tx) error {
			tokens, err := tx.Tokens(ctx, storetest.Admin)
			for _, k := range tokens {
				ends[k.ID] = k.ExpiresAt
			}
			if _, err := tx.Bearer(ctx, "h3"); err == nil {
				t.Error("a token opens that has ended")
			}
			if err == nil {
				err = tx.ForgetTokens(ctx, 0)
			}
			return err
		})
		if len(ends) != 3 || !ends["t1"].IsZero() || ends["hour"].IsZero() || !ends["limited"].Equal(ends["hour"]) {
			t.Errorf("they end at %v", ends)
		}

		var before, after int64
		update(func(tx *store.Tx) (err error) {
			c := store.Cluster{ID: "c1", Project: storetest.Project, Name: "cfd", Spec: spec.Cluster{Name: "cfd"}}
			if err := tx.AddCluster(ctx, c); err != nil {
				return err
			}
			if before, err = tx.EntryRevision(ctx, "c1"); err != nil {
				return err
			}
			if _, err := tx.ChangeSpec(ctx, "c1", c.Spec, 0); err != nil {
				return err
			}
			after, err = tx.EntryRevision(ctx, "c1")
			return err
		})
		if after <= before {
			t.Errorf("the cluster's file has changed and its doors are not told: %d, then %d", before, after)
		}

		for _, e := range []store.Entry{{ID: "a1", Person: "bob", Project: "aero"}, {ID: "a2", Person: "alice"}, {ID: "a3", Person: "alice", Project: "bio"}, {ID: "a4", Person: "bob"}} {
			e.Door = store.APIDoor
			update(func(tx *store.Tx) error { return tx.Audit(ctx, e) })
		}
		for want, of := range map[string]store.EntriesOf{
			"a4 a3 a2 a1": {}, "a4 a1": {Person: "bob"}, "a1": {Projects: []string{"aero"}}, "": {Projects: []string{}}, "a3 a2 a1": {Projects: []string{"aero"}, Own: "alice"},
			"a3 a2": {Projects: []string{}, Own: "alice"},
		} {
			of.Limit = 10
			if got := entries(ctx, t, db, of); !sameWords(got, want) {
				t.Errorf("%+v: %s instead of %s", of, got, want)
			}
		}
		update(func(tx *store.Tx) error { return tx.ForgetEntries(ctx, time.Hour) })
		if got := entries(ctx, t, db, store.EntriesOf{Limit: 10}); !sameWords(got, "a1 a2 a3 a4") {
			t.Errorf("forgotten too early: %s is left", got)
		}
		update(func(tx *store.Tx) error { return tx.ForgetEntries(ctx, -time.Hour) }) // those before the hour to come
		if got := entries(ctx, t, db, store.EntriesOf{Limit: 10}); got != "" {
			t.Errorf("not forgotten: %s", got)
		}
	})
}

func entries(ctx context.Context, t *testing.T, db *store.Store, of store.EntriesOf) string {
	t.Helper()
	var ids []string
	if err := db.View(ctx, func(tx *store.Tx) error {
		all, err := tx.Entries(ctx, of)
		for _, e := range all {
			ids = append(ids, e.ID)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(ids, " ")
}

// sameWords says whether two texts have the same words, in any order: entries of one instant stand in any.
func sameWords(a, b string) bool {
	words := func(text string) map[string]bool {
		set := map[string]bool{}
		for _, w := range strings.Fields(text) {
			set[w] = true
		}
		return set
	}
	return maps.Equal(words(a), words(b))
}
