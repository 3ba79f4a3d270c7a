package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/person"
)

func TestARecordedAnswerIsForThoseWhoMayAskNow(t *testing.T) {
	const path = "/v1/clusters/aero%2Fcfd"
	with := func(token, key string) []string {
		return []string{"Authorization", "Bearer " + token, "Idempotency-Key", key}
	}
	begin := func(t *testing.T) (func(token, key, path string) reply, *core.Store) {
		t.Helper()
		s, db := server(t, 8)
		tenants(t, db)
		err := db.Update(t.Context(), func(tx *core.Tx) error {
			for name, token := range map[string]person.Token{
				"sam-reads": {Scope: access.ReadOnly}, "sam-in-bio": {Scope: access.Whole, Project: "bio"},
				"sam-in-aero": {Scope: access.Whole, Project: "aero"},
			} {
				token.ID, token.Person, token.Name, token.Kind = "t-"+name, "sam", name, person.APIToken
				if err := person.AddToken(t.Context(), tx, person.HashToken(name), token, time.Hour); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(token, key, path string) reply { return call(t, s, "DELETE", path, "", with(token, key)...) }
		if first := ask("sam", "k", path); first.status != 202 {
			t.Fatal(first)
		}
		return ask, db
	}
	t.Run("the same again", func(t *testing.T) {
		ask, _ := begin(t)
		if got := ask("sam", "k", path); got.status != 202 || !strings.Contains(got.text, `"operation"`) {
			t.Error(got)
		}
		if got := ask("sam", "k", "/v1/clusters/bio%2Fcfd"); got.status != 422 {
			t.Error("another request:", got)
		}
	})
	t.Run("a token that only reads", func(t *testing.T) {
		ask, _ := begin(t)
		if got := ask("sam-reads", "k", path); got.status != 403 || strings.Contains(got.text, "operation") ||
			strings.Contains(got.text, "c-aero") {
			t.Error(got)
		}
	})
	t.Run("who was revoked", func(t *testing.T) {
		ask, db := begin(t)
		change(t, db, func(ctx context.Context, tx *core.Tx) error { return person.RemoveMember(ctx, tx, "aero", "sam") })
		if got := ask("sam", "k", path); got.status != 404 || strings.Contains(got.text, "c-aero") {
			t.Error(got)
		}
	})
	t.Run("another person with the same key", func(t *testing.T) {
		ask, _ := begin(t)
		if got := ask("vera", "k", path); got.status != 403 && got.status != 404 {
			t.Error(got)
		}
		if got := ask("olga", "k", "/v1/clusters/bio%2Fcfd"); got.status != 202 || !strings.Contains(got.text, "c-bio") {
			t.Error("her own request:", got)
		}
	})
	t.Run("tokens for a project each, with the same words", func(t *testing.T) {
		ask, _ := begin(t)
		for token, cluster := range map[string]string{"sam-in-bio": "c-bio", "sam-in-aero": "c-aero"} {
			for range 2 {
				if got := ask(token, "p", "/v1/clusters/cfd"); got.status != 202 || !strings.Contains(got.text, cluster) {
					t.Error(token, got)
				}
			}
		}
		if got := ask("sam-in-bio", "k", path); got.status != 404 {
			t.Error("an answer about another project:", got)
		}
	})
	t.Run("its owner sees it in the audit log", func(t *testing.T) {
		s, db := server(t, 8)
		tenants(t, db)
		for range 2 {
			call(t, s, "DELETE", path, "", with("sam", "k")...)
		}
		audit := call(t, s, "GET", "/v1/audit?project=aero", "", "Authorization", "Bearer olga")
		if n := strings.Count(audit.text, `"delete-cluster"`); n != 2 {
			t.Errorf("%d entries: %s", n, audit.text)
		}
	})
}

func change(t *testing.T, db *core.Store, f func(context.Context, *core.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

func TestKeysAndTokensOfAPersonAreCounted(t *testing.T) {
	s, db := server(t, 0)
	tenants(t, db)
	as := []string{"Authorization", "Bearer sam"}
	change(t, db, func(ctx context.Context, tx *core.Tx) error {
		for i := range 99 {
			if err := person.AddKey(ctx, tx, person.Key{Person: "sam", Fingerprint: fmt.Sprint("SHA256:", i),
				Line: "ssh-ed25519 AAAA"}); err != nil {
				return err
			}
		}
		for i := range 498 { // and the one that is shown
			token := person.Token{ID: fmt.Sprint("t-many-", i), Person: "sam", Kind: person.APIToken, Scope: access.Whole}
			if err := person.AddToken(ctx, tx, person.HashToken(token.ID), token, time.Hour); err != nil {
				return err
			}
		}
		return nil
	})
	key := func(who string) string {
		signer, line := freshKey(t)
		return registration(t, who, line, signer)
	}
	if got := call(t, s, "POST", "/v1/keys", key("sam"), as...); got.status != 201 {
		t.Error("the hundredth:", got)
	}
	if got := call(t, s, "POST", "/v1/keys", key("sam"), as...); got.status != 409 ||
		!strings.Contains(got.text, "you have 100 SSH keys") {
		t.Error(got)
	}
	if got := call(t, s, "POST", "/v1/tokens", `{"name":"last"}`, as...); got.status != 201 {
		t.Error("the five hundredth:", got)
	}
	if got := call(t, s, "POST", "/v1/tokens", `{"name":"more"}`, as...); got.status != 409 ||
		!strings.Contains(got.text, "sam has 500 tokens") {
		t.Error(got)
	}
	if got := call(t, s, "POST", "/v1/keys", key("olga"), "Authorization", "Bearer olga"); got.status != 201 {
		t.Error("somebody else's:", got)
	}
}
