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

	"muster/internal/access"
	"muster/internal/api"
	"muster/internal/core"
	"muster/internal/door/login"
	"muster/internal/door/login/logintest"
	"muster/internal/inventory"
	"muster/internal/kinds/person"
)

// loginServer is an API at which people log in.
func loginServer(t *testing.T, create bool) (*httptest.Server, *core.Store, *logintest.Issuer, *api.API) {
	t.Helper()
	issuer := logintest.New(t)
	provider, err := login.Open(inventory.Login{Issuer: issuer.URL, ClientID: "muster", Scopes: []string{"openid"},
		NameClaim: "preferred_username", Create: create, For: 12 * time.Hour})
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
	if got := call(t, s, "GET", "/v1/login", "", nobody...); got.status != 200 || got.body["issuer"] != issuer.URL ||
		got.body["device_authorization_endpoint"] != issuer.URL+"/device" || got.body["for"] != "12h0m0s" {
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
	given := body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(map[string]any{"name": "Alice Example"})),
		"public_key": line, "name": "laptop"})
	got := call(t, s, "POST", "/v1/login", given, nobody...)
	if got.status != 201 || got.body["person"] != "alice" || got.body["new"] != true {
		t.Fatal(got)
	}
	as := []string{"Authorization", "Bearer " + got.body["token"].(string)}
	if me := call(t, s, "GET", "/v1/site", "", as...); me.body["identity"] != "alice" || me.body["operator"] != nil ||
		me.body["token"] != got.body["id"] {
		t.Error(me)
	}
	if tokens := call(t, s, "GET", "/v1/tokens", "", as...); !strings.Contains(tokens.text, "login from laptop") ||
		!strings.Contains(tokens.text, `"kind":"login"`) {
		t.Error(tokens)
	}
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(got.body["certificate"].(string)))
	if err != nil {
		t.Fatal(err)
	}
	c := parsed.(*ssh.Certificate)
	until, err := time.Parse(time.RFC3339Nano, got.body["expires_at"].(string))
	signer := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(c.SignatureKey)))
	if err != nil || c.KeyId != got.body["id"] || len(c.ValidPrincipals) != 1 || c.ValidPrincipals[0] != "alice" ||
		int64(c.ValidBefore) != until.Unix() || signer != a.Authority.LoginCA() {
		t.Errorf("%+v until %s, %v", c, until, err)
	}

	if again := call(t, s, "POST", "/v1/login", given, nobody...); again.status != 401 ||
		!strings.Contains(again.text, "already") {
		t.Error("the same proof twice:", again)
	}
	second := call(t, s, "POST", "/v1/login",
		body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(map[string]any{"jti": "2",
			"preferred_username": "renamed"}))}), nobody...)
	if second.status != 201 || second.body["person"] != "alice" || second.body["new"] != nil ||
		second.body["certificate"] != nil {
		t.Error("who has changed their name at the provider is who they were:", second)
	}
	if gone := call(t, s, "DELETE", "/v1/tokens/"+got.body["id"].(string), "", as...); gone.status != 204 {
		t.Error(gone)
	}
	if after := call(t, s, "GET", "/v1/site", "", as...); after.status != 401 {
		t.Error("a login that was ended goes on:", after)
	}
	err = db.View(t.Context(), func(tx *core.Tx) error {
		_, err := person.Login(t.Context(), tx, got.body["id"].(string))
		return err
	})
	if err == nil {
		t.Error("its certificate is good")
	}
	audit := call(t, s, "GET", "/v1/audit", "")
	if !strings.Contains(audit.text, `"action":"log-in"`) || !strings.Contains(audit.text, `"outcome":"201"`) ||
		strings.Contains(audit.text, "muster_") || strings.Contains(audit.text, "eyJ") {
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
		"by another's name": {true, map[string]any{"preferred_username": "admin"}, 403,
			"muster users set admin --subject"},
		"as a system account": {true, map[string]any{"preferred_username": "root"}, 403, "cannot be an account"},
		"with no name":        {true, map[string]any{"preferred_username": nil}, 403, "cannot be an account"},
		"with an address for a name": {true, map[string]any{"preferred_username": "alice@example.org"}, 403,
			"cannot be an account"},
		"claiming to be an operator": {true, map[string]any{"groups": []string{"admin"}, "operator": true}, 201,
			`"person":"alice"`},
		"somebody disabled": {true, map[string]any{"sub": "s-dora"}, 403, "dora is disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			s, db, issuer, _ := loginServer(t, c.create)
			err := db.Update(t.Context(), func(tx *core.Tx) error {
				for _, name := range []string{"carol", "dora"} {
					if err := person.Add(t.Context(), tx,
						person.Person{Name: name, Subject: issuer.URL + " s-" + name}); err != nil {
						return err
					}
				}
				return person.Change(t.Context(), tx, person.Person{Name: "dora", Subject: issuer.URL + " s-dora",
					Disabled: true})
			})
			if err != nil {
				t.Fatal(err)
			}
			got := call(t, s, "POST", "/v1/login", body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(c.claims))}),
				nobody...)
			if got.status != c.status || !strings.Contains(got.text, c.words) {
				t.Fatal(got)
			}
			var people []person.Person
			err = db.View(t.Context(), func(tx *core.Tx) (err error) { people, err = person.List(t.Context(), tx); return err })
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
	if got := call(t, down, "GET", "/v1/login", "", nobody...); got.status != 503 ||
		!strings.Contains(got.text, "login provider") {
		t.Error(got)
	}
	none, _ := server(t, 0)
	if got := call(t, none, "GET", "/v1/login", "", nobody...); got.status != 404 || !strings.Contains(got.text, "MUSTER_TOKEN") {
		t.Error(got)
	}
}

func TestStrangersDoNotKeepOthersFromLoggingIn(t *testing.T) {
	s, _, issuer, a := loginServer(t, true)
	handler := must(a.Handler())
	try := func(remote, forwarded, given string) *httptest.ResponseRecorder {
		request := httptest.NewRequest("POST", "/v1/login", strings.NewReader(given))
		request.Header.Set("Content-Type", "application/json")
		if forwarded != "" {
			request.Header.Add("X-Forwarded-For", "198.51.100.1, 198.51.100.2") // a stranger's own words
			request.Header.Add("X-Forwarded-For", forwarded)
		}
		request.RemoteAddr = remote
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		return answer
	}
	flood := func(n int, remote, forwarded func(int) string) (refused int) {
		for i := range n {
			answer := try(remote(i), forwarded(i), `{"id_token": "x"}`)
			if answer.Code == 429 && strings.Contains(answer.Body.String(), "try again in") && answer.Header().
				Get("Retry-After") != "" {
				refused++
			} else if answer.Code != 401 {
				t.Fatal(answer)
			}
		}
		return refused
	}
	always := func(text string) func(int) string { return func(int) string { return text } }
	if refused := flood(40, always("192.0.2.1:9"), always("")); refused != 10 {
		t.Error("one address:", refused, "are told to wait")
	}
	if refused := flood(60, func(i int) string { return fmt.Sprintf("[2001:db8:1:1::%x]:9", i) }, always("")); refused != 30 {
		t.Error("a /64:", refused, "are told to wait")
	}
	if refused := flood(40, always("127.0.0.1:9"), always("192.0.2.77")); refused != 10 {
		t.Error("behind a proxy:", refused, "are told to wait")
	}
	if refused := flood(800, func(i int) string { return fmt.Sprintf("10.1.%d.%d:9", i/200, i%200) }, always("")); refused != 0 {
		t.Error("a first try waits", refused, "times")
	}
	if refused := flood(100, func(i int) string { return fmt.Sprintf("[2001:db8:2:%x::1]:9", i) }, always("")); refused < 90 {
		t.Error("while many try, a /48 has", 100-refused, "tries")
	}
	for i, from := range []struct{ remote, forwarded string }{{"192.0.2.200:9", ""}, {"[2001:db8:99::1]:9", ""},
		{"127.0.0.1:9", "192.0.2.201"}, {"127.0.0.1:9", ""}} {
		given := body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(map[string]any{"jti": fmt.Sprint("late", i)}))})
		if answer := try(from.remote, from.forwarded, given); answer.Code != 201 {
			t.Error(from, "cannot log in:", answer.Code, answer.Body)
		}
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
	err := db.View(t.Context(), func(tx *core.Tx) error {
		tokens, err := person.Tokens(context.Background(), tx, "alice")
		if len(tokens) != 1 {
			err = fmt.Errorf("%d tokens, %w", len(tokens), err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAPersonHasABoundedNumberOfLogins(t *testing.T) {
	s, db, issuer, _ := loginServer(t, true)
	logIn := func(id string) []string {
		t.Helper()
		got := call(t, s, "POST", "/v1/login", body(t, map[string]string{
			"id_token": issuer.Token(issuer.Claims(map[string]any{"jti": id}))}), nobody...)
		if got.status != 201 || got.body["person"] != "alice" {
			t.Fatal(got)
		}
		return []string{"Authorization", "Bearer " + got.body["token"].(string)}
	}
	first := logIn("first")
	made := call(t, s, "POST", "/v1/tokens", `{"name":"a script's"}`, first...)
	change(t, db, func(ctx context.Context, tx *core.Tx) error {
		for i := range 99 {
			token := person.Token{ID: fmt.Sprint("t-login-", i), Person: "alice", Kind: person.LoginToken, Scope: access.Whole}
			if err := person.AddToken(ctx, tx, person.HashToken(token.ID), token, time.Hour); err != nil {
				return err
			}
		}
		return nil
	})
	if got := call(t, s, "GET", "/v1/site", "", first...); got.status != 200 {
		t.Fatal("the oldest of a hundred:", got)
	}
	last := logIn("last")
	for _, c := range []struct {
		what string
		as   []string
		want int
	}{{"the oldest of a hundred and one", first, 401}, {"the last", last, 200},
		{"a token that was made", []string{"Authorization", "Bearer " + made.body["token"].(string)}, 200}} {
		if got := call(t, s, "GET", "/v1/site", "", c.as...); got.status != c.want {
			t.Errorf("%s: %v, want %d", c.what, got, c.want)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestNoPersonHasTheNameOfASystemsGroup tries names that are no users of the image but groups, both ways a person comes to be.
func TestNoPersonHasTheNameOfASystemsGroup(t *testing.T) {
	s, _, issuer, _ := loginServer(t, true)
	for _, name := range []string{"root", "shadow", "sudo", "adm", "wheel", "docker", "kvm", "disk", "slurm", "munge",
		"systemd-new"} {
		if got := call(t, s, "POST", "/v1/people", body(t, map[string]string{"name": name})); got.status != 422 ||
			!strings.Contains(got.text, "cannot be an account") {
			t.Errorf("%s was added: %v", name, got)
		}
		claims := map[string]any{"preferred_username": name, "sub": "s-" + name}
		given := body(t, map[string]string{"id_token": issuer.Token(issuer.Claims(claims))})
		if got := call(t, s, "POST", "/v1/login", given, nobody...); got.status != 403 ||
			!strings.Contains(got.text, "cannot be an account") {
			t.Errorf("%s has logged in: %v", name, got)
		}
	}
	if got := call(t, s, "POST", "/v1/people", `{"name": "shadowfax"}`); got.status != 201 {
		t.Error(got)
	}
}
