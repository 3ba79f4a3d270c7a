package person_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
	"muster/internal/spec"
)

func TestTokensAndTheAuditLogGoByTheDatabasesClock(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		db, ctx := kindstest.Open(t, url), t.Context()
		update := func(f func(*core.Tx) error) {
			t.Helper()
			if err := db.Update(ctx, f); err != nil {
				t.Fatal(err)
			}
		}
		token := func(id string) person.Token {
			return person.Token{ID: id, Person: kindstest.Admin, Name: "x", Kind: person.APIToken, Scope: access.Whole}
		}
		update(func(tx *core.Tx) error {
			if err := person.AddToken(ctx, tx, "h1", token("hour"), time.Hour); err != nil {
				return err
			}
			tokens, err := person.Tokens(ctx, tx, kindstest.Admin)
			if err != nil {
				return err
			}
			limited := token("limited")
			for _, k := range tokens {
				if k.ID == "hour" {
					limited.ExpiresAt = k.ExpiresAt
				}
			}
			if err := person.AddToken(ctx, tx, "h2", limited, 2*time.Hour); err != nil {
				return err
			}
			return person.AddToken(ctx, tx, "h3", token("over"), 0)
		})
		ends := map[string]time.Time{}
		update(func(tx *core.Tx) error {
			tokens, err := person.Tokens(ctx, tx, kindstest.Admin)
			for _, k := range tokens {
				ends[k.ID] = k.ExpiresAt
			}
			if _, err := person.Bearer(ctx, tx, "h3"); err == nil {
				t.Error("a token opens that has ended")
			}
			if err == nil {
				err = person.ForgetTokens(ctx, tx, 0)
			}
			return err
		})
		if len(ends) != 3 || !ends["t1"].IsZero() || ends["hour"].IsZero() || !ends["limited"].Equal(ends["hour"]) {
			t.Errorf("they end at %v", ends)
		}

		var before, after int64
		update(func(tx *core.Tx) (err error) {
			c := cluster.Cluster{ID: "c1", Project: kindstest.Project, Name: "cfd", Spec: spec.Cluster{Name: "cfd"}}
			if err := cluster.Add(ctx, tx, c); err != nil {
				return err
			}
			if before, err = person.EntryRevision(ctx, tx, "c1"); err != nil {
				return err
			}
			if _, err := cluster.ChangeSpec(ctx, tx, "c1", c.Spec, 0); err != nil {
				return err
			}
			after, err = person.EntryRevision(ctx, tx, "c1")
			return err
		})
		if after <= before {
			t.Errorf("the cluster's file has changed and its doors are not told: %d, then %d", before, after)
		}

		for _, e := range []person.Entry{
			{ID: "a1", Person: "bob", Project: "aero", Action: "get-cluster", Object: "cfd", Outcome: "200"},
			{ID: "a2", Person: "alice", Action: "list-keys", Outcome: "200"},
			{ID: "a3", Person: "alice", Project: "bio", Action: "get-cluster", Object: "dna", Outcome: "404"},
			{ID: "a4", Person: "bob", Action: "begin-session", Object: "cfd", Outcome: "let in"}} {
			e.Door = person.APIDoor
			update(func(tx *core.Tx) error { return person.Audit(ctx, tx, e) })
		}
		for want, of := range map[string]person.EntriesOf{
			"a4 a3 a2 a1": {}, "a4 a1": {Person: "bob"}, "a1": {Projects: []string{"aero"}}, "": {Projects: []string{}},
			"a3 a2 a1": {Projects: []string{"aero", "bio"}, Own: "alice"}, // a3 is of both
			"a3 a2":    {Projects: []string{}, Own: "alice"},
			"a3 a1":    {Action: "get-cluster"}, "a4": {Object: "cfd", Show: person.Acts}, "a3": {Show: person.Refused},
			"a4 a3": {Show: person.Acts}, "a2": {Person: "alice", Action: "list-keys", Until: time.Now().Add(time.Hour)},
		} {
			of.Limit = 10
			if got := entries(ctx, t, db, of); !sameWords(got, want) {
				t.Errorf("%+v: %s instead of %s", of, got, want)
			}
		}
		update(func(tx *core.Tx) error { return person.ForgetEntries(ctx, tx, time.Hour) })
		if got := entries(ctx, t, db, person.EntriesOf{Limit: 10}); !sameWords(got, "a1 a2 a3 a4") {
			t.Errorf("forgotten too early: %s is left", got)
		}
		update(func(tx *core.Tx) error { return person.ForgetEntries(ctx, tx, -time.Hour) }) // those before the hour to come
		if got := entries(ctx, t, db, person.EntriesOf{Limit: 10}); got != "" {
			t.Errorf("not forgotten: %s", got)
		}
	})
}

func entries(ctx context.Context, t *testing.T, db *core.Store, of person.EntriesOf) string {
	t.Helper()
	var ids []string
	if err := db.View(ctx, func(tx *core.Tx) error {
		all, err := person.Entries(ctx, tx, of)
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
