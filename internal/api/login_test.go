package api_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/api"
	"muster/internal/inventory"
	"muster/internal/login"
	"muster/internal/login/logintest"
	"muster/internal/store"
)

// loginServer is an API at which people log in.
func loginServer(t *testing.T, create bool) (*httptest.Server, *store.Store, *logintest.Issuer, *api.API) {
	t.Helper()
	issuer := logintest.New(t)
	provider, err := login.Open(inventory.Login{Issuer: issuer.URL, ClientID: "muster", Scopes: []string{"openid"}, NameClaim: "preferred_username", Create: create, For: 12 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var served *api.API
	s, db := server(t, 0, func(a *api.API) { a.Login, served = provider, a })
	return s, db, issuer, served
}

func body(t *testing.T, value map[string]string) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nobody has no token.
var nobody = []string{"Authorization", ""}

func TestALoginIsATokenAndACertificateThatEndTogether(t *testing.T) {
	s, db, issuer, a := loginServer(t, true)
	if got := call(t, s, "GET", "/v1/login", "", nobody...); got.status != 200 || got.body["issuer"] != issuer.URL || got.body["device_authorization_endpoint"] != issuer.URL+"/device" || got.body["for"] != "12h0m0s" {
		t.Fatal(got)
	}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	line := string(ssh.MarshalAuthorizedKey(key))
	given := body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(map[string]any{"name": "Alice Example"})), "public_key": line, "name": "laptop"})
	got := call(t, s, "POST", "/v1/login", given, nobody...)
	if got.status != 201 || got.body["person"] != "alice" || got.body["new"] != true {
		t.Fatal(got)
	}
	as := []string{"Authorization", "Bearer " + got.body["token"].(string)}
	if me := call(t, s, "GET", "/v1/site", "", as...); me.body["identity"] != "alice" || me.body["operator"] != nil || me.body["token"] != got.body["id"] {
		t.Error(me)
	}
	if tokens := call(t, s, "GET", "/v1/tokens", "", as...); !strings.Contains(tokens.text, "login from laptop") || !strings.Contains(tokens.text, `"kind":"login"`) {
		t.Error(tokens)
	}
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(got.body["certificate"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	c := parsed.(*ssh.Certificate)
	until, err := time.Parse(time.RFC3339Nano, got.body["expires_at"].(string))
	signer := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(c.SignatureKey)))
	if err != nil || c.KeyId != got.body["id"] || len(c.ValidPrincipals) != 1 || c.ValidPrincipals[0] != "alice" || int64(c.ValidBefore) != until.Unix() || signer != a.Authority.LoginCA() {
		t.Errorf("%+v until %s, %v", c, until, err)
	}

	if again := call(t, s, "POST", "/v1/login", given, nobody...); again.status != 401 || !strings.Contains(again.text, "already") {
		t.Error("the same proof twice:", again)
	}
	second := call(t, s, "POST", "/v1/login", body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(map[string]any{"jti": "2", "preferred_username": "renamed"}))}), nobody...)
	if second.status != 201 || second.body["person"] != "alice" || second.body["new"] != nil || second.body["certificate"] != nil {
		t.Error("who has changed their name at the provider is who they were:", second)
	}
	if gone := call(t, s, "DELETE", "/v1/tokens/"+got.body["id"].(string), "", as...); gone.status != 204 {
		t.Error(gone)
	}
	if after := call(t, s, "GET", "/v1/site", "", as...); after.status != 401 {
		t.Error("a login that was ended goes on:", after)
	}
	err = db.View(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Login(t.Context(), got.body["id"].(string))
		return err
	})
	if err == nil {
		t.Error("its certificate is good")
	}
	audit := call(t, s, "GET", "/v1/audit", "")
	if !strings.Contains(audit.text, `"action":"log-in"`) || !strings.Contains(audit.text, `"outcome":"201"`) || strings.Contains(audit.text, "muster_") || strings.Contains(audit.text, "eyJ") {
		t.Error("the audit log tells logins, and no secrets:", audit)
	}
}

func TestWhoMayLogIn(t *testing.T) {
	for name, c := range map[string]struct {
		create bool
		claims map[string]any
		status int
		words  string
	}{
		"somebody new":                {true, nil, 201, `"person":"alice"`},
		"somebody new, where none is": {false, nil, 403, "muster users add NAME --subject"},
		"the one it was tied to":      {false, map[string]any{"sub": "s-carol"}, 201, `"person":"carol"`},
		"by another's name":           {true, map[string]any{"preferred_username": "admin"}, 403, "muster users set admin --subject"},
		"as a system account":         {true, map[string]any{"preferred_username": "root"}, 403, "cannot be an account"},
		"with no name":                {true, map[string]any{"preferred_username": nil}, 403, "cannot be an account"},
		"with an address for a name":  {true, map[string]any{"preferred_username": "alice@example.org"}, 403, "cannot be an account"},
		"claiming to be an operator":  {true, map[string]any{"groups": []string{"admin"}, "operator": true}, 201, `"person":"alice"`},
		"somebody disabled":           {true, map[string]any{"sub": "s-dora"}, 403, "dora is disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			s, db, issuer, _ := loginServer(t, c.create)
			err := db.Update(t.Context(), func(tx *store.Tx) error {
				for _, name := range []string{"carol", "dora"} {
					if err := tx.AddPerson(t.Context(), store.Person{Name: name, Subject: issuer.URL + " s-" + name}); err != nil {
						return err
					}
				}
				return tx.ChangePerson(t.Context(), store.Person{Name: "dora", Subject: issuer.URL + " s-dora", Disabled: true})
			})
			if err != nil {
				t.Fatal(err)
			}
			got := call(t, s, "POST", "/v1/login", body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(c.claims))}), nobody...)
			if got.status != c.status || !strings.Contains(got.text, c.words) {
				t.Fatal(got)
			}
			var people []store.Person
			err = db.View(t.Context(), func(tx *store.Tx) (err error) { people, err = tx.People(t.Context()); return err })
			operators := 0
			for _, p := range people {
				if p.Operator {
					operators++
				}
			}
			if err != nil || operators != 1 || c.status != 201 && len(people) != 3 {
				t.Errorf("%+v, %v", people, err)
			}
		})
	}
}

func TestALoginThatCannotBe(t *testing.T) {
	s, _, issuer, _ := loginServer(t, true)
	stale := issuer.Token(issuer.Claims(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}))
	for given, want := range map[string]int{
		body(t, map[string]string{}):                                                                              422,
		body(t, map[string]string{"id_token": "x", "code": "y"}):                                                  422,
		body(t, map[string]string{"id_token": stale}):                                                             401,
		body(t, map[string]string{"id_token": issuer.Unsigned(issuer.Claims(nil))}):                               401,
		body(t, map[string]string{"code": "x"}):                                                                   401,
		body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(nil)), "public_key": "ssh-ed25519 AAA"}): 422,
	} {
		if got := call(t, s, "POST", "/v1/login", given, nobody...); got.status != want || strings.Contains(got.text, "eyJ") {
			t.Errorf("%.60s…: %d wanted, %+v", given, want, got)
		}
	}
	issuer.Down.Store(true)
	down, _, other, _ := loginServer(t, true)
	other.Down.Store(true)
	if got := call(t, down, "GET", "/v1/login", "", nobody...); got.status != 503 || !strings.Contains(got.text, "login provider") {
		t.Error(got)
	}
	none, _ := server(t, 0)
	if got := call(t, none, "GET", "/v1/login", "", nobody...); got.status != 404 || !strings.Contains(got.text, "MUSTER_TOKEN") {
		t.Error(got)
	}
}

func TestWhoTriesToLogInTooOftenWaits(t *testing.T) {
	s, _, _, _ := loginServer(t, true)
	refused := 0
	for range 40 {
		got := call(t, s, "POST", "/v1/login", `{"id_token": "x"}`, nobody...)
		if got.status == 429 && strings.Contains(got.text, "try again in") {
			refused++
		} else if got.status != 401 {
			t.Fatal(got)
		}
	}
	if refused == 0 {
		t.Error("nobody is told to wait")
	}
	if got := call(t, s, "GET", "/v1/site", ""); got.status != 200 {
		t.Error("those who have a token wait too:", got)
	}
}

func TestAProofIsSpentOnce(t *testing.T) {
	_, db, issuer, a := loginServer(t, true)
	s := httptest.NewServer(must(a.Handler()))
	defer s.Close()
	given := body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(nil))})
	results := make(chan int)
	for range 8 {
		go func() { results <- call(t, s, "POST", "/v1/login", given, nobody...).status }()
	}
	counts := map[int]int{}
	for range 8 {
		counts[<-results]++
	}
	if counts[201] != 1 || counts[401] != 7 {
		t.Error(counts)
	}
	err := db.View(t.Context(), func(tx *store.Tx) error {
		tokens, err := tx.Tokens(context.Background(), "alice")
		if len(tokens) != 1 {
			err = fmt.Errorf("%d tokens, %w", len(tokens), err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
