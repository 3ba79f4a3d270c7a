package api_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/person"
)

// as calls as the bearer of a token.
func as(t *testing.T, s *httptest.Server, token, method, path, body string) reply {
	t.Helper()
	return call(t, s, method, path, body, "Authorization", "Bearer "+token)
}

// names says that a text has a name, and not as a part of an ID, which is made at random.
func names(text, name string) bool {
	return regexp.MustCompile(`(\b|_)` + name + `\b`).MatchString(text)
}

func wants(t *testing.T, got reply, status int, words ...string) {
	t.Helper()
	if got.status != status {
		t.Errorf("%d instead of %d: %s", got.status, status, got.text)
	}
	for _, w := range words {
		if !strings.Contains(got.text, w) {
			t.Errorf("no %q in %s", w, got.text)
		}
	}
}

// made is a token that somebody has made.
func made(t *testing.T, s *httptest.Server, as, body string) (token apiv1.Token) {
	t.Helper()
	got := call(t, s, "POST", "/v1/tokens", body, "Authorization", "Bearer "+as)
	wants(t, got, 201)
	if err := json.Unmarshal([]byte(got.text), &token); err != nil {
		t.Fatal(err)
	}
	return token
}

func TestATokenMayNoMoreThanItIsFor(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)

	looks := made(t, s, "sam", `{"name": "dashboard", "scope": "read"}`).Token
	wants(t, as(t, s, looks, "GET", "/v1/clusters/aero%2Fcfd", ""), 200)
	for _, c := range [][3]string{
		{"POST", "/v1/clusters/aero%2Fcfd/scale", `{"nodes": 1}`}, {"DELETE", "/v1/clusters/aero%2Fcfd", ""},
		{"POST", "/v1/clusters/aero%2Fcfd/certificate", `{"public_key": "x"}`},
		{"POST", "/v1/tokens", `{"name": "more", "scope": "all"}`}, {"POST", "/v1/keys", `{"line": "x"}`},
		{"DELETE", "/v1/tokens/t-sam", ""},
	} {
		wants(t, as(t, s, looks, c[0], c[1], c[2]), 403, "the token is read-only")
	}

	aero := made(t, s, "sam", `{"name": "ci", "project": "aero"}`).Token
	wants(t, as(t, s, aero, "GET", "/v1/clusters/cfd", ""), 200, `"aero"`)
	wants(t, as(t, s, aero, "GET", "/v1/clusters/bio%2Fcfd", ""), 404)
	for _, path := range []string{"/v1/clusters", "/v1/projects", "/v1/snapshots", "/v1/usage", "/v1/events", "/v1/audit",
		"/v1/site", "/v1/sessions"} {
		if got := as(t, s, aero, "GET", path, ""); got.status != 200 || names(got.text, "bio") {
			t.Errorf("GET %s: %d %s", path, got.status, got.text)
		}
	}
	wants(t, as(t, s, aero, "GET", "/v1/sessions", ""), 200, "s-aero")
	wants(t, as(t, s, looks, "GET", "/v1/sessions", ""), 200, "s-aero", "s-bio")
	wants(t, as(t, s, aero, "DELETE", "/v1/sessions/s-bio", ""), 404)
	wants(t, as(t, s, aero, "DELETE", "/v1/sessions/s-aero", ""), 204)
	wants(t, as(t, s, aero, "POST", "/v1/tokens", `{"name": "wider"}`), 403, "the token is for project aero only")
	wants(t, as(t, s, "member", "POST", "/v1/tokens", `{"name": "other", "project": "bio"}`), 404)
	wants(t, as(t, s, "operator", "POST", "/v1/tokens", `{"name": "none", "project": "no-such"}`), 404)
}

func TestATokenEnds(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		over := person.Token{ID: "t-over", Person: "member", Name: "x", Kind: person.APIToken, Scope: access.Whole}
		// by the database's clock it has ended in the same instant
		return person.AddToken(t.Context(), tx, person.HashToken("over"), over, 0)
	}); err != nil {
		t.Fatal(err)
	}
	wants(t, as(t, s, "over", "GET", "/v1/site", ""), 401, "a valid token is needed")

	short := made(t, s, "member", `{"name": "an hour", "for": "30m"}`)
	if life := short.ExpiresAt.Sub(short.CreatedAt); life != 30*time.Minute {
		t.Errorf("it lives for %s", life)
	}
	if long := made(t, s, short.Token, `{"name": "a year", "for": "365d"}`); long.ExpiresAt.After(short.ExpiresAt) {
		t.Errorf("it ends at %s, what made it at %s", long.ExpiresAt, short.ExpiresAt)
	}
	for _, wrong := range []string{"367d", "-1h", "soon"} {
		wants(t, as(t, s, "member", "POST", "/v1/tokens", `{"name": "x", "for": "`+wrong+`"}`), 422, "for: \\\""+wrong)
	}

	wants(t, as(t, s, "owner", "DELETE", "/v1/tokens/"+short.ID, ""), 404)
	wants(t, as(t, s, token, "DELETE", "/v1/tokens/t1", ""), 404) // the controller's own
	wants(t, as(t, s, "member", "DELETE", "/v1/tokens/"+short.ID, ""), 204)
	wants(t, as(t, s, short.Token, "GET", "/v1/site", ""), 401)

	wants(t, as(t, s, "operator", "PUT", "/v1/people/member", `{"disabled": true}`), 200)
	wants(t, as(t, s, "member", "GET", "/v1/site", ""), 401)
	wants(t, as(t, s, "operator", "POST", "/v1/people/member/tokens", `{"name": "x"}`), 404, "disabled")
	wants(t, as(t, s, "operator", "PUT", "/v1/people/member", `{"disabled": false}`), 200)
	wants(t, as(t, s, "member", "GET", "/v1/site", ""), 200)
	wants(t, as(t, s, "operator", "PUT", "/v1/people/operator", `{"disabled": true}`), 409, "another operator can")
	wants(t, as(t, s, "operator", "PUT", "/v1/people/operator", `{"operator": false}`), 409)

	wants(t, as(t, s, "operator", "POST", "/v1/people/member/tokens", `{"name": "first", "for": "7d"}`), 201,
		"first, made by operator", "muster_")
	wants(t, as(t, s, "member", "GET", "/v1/tokens", ""), 200, "first, made by operator")
}

func TestAKeyIsStrongEnoughAndOnePersons(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	add := func(who, line string, key ssh.Signer) reply {
		return as(t, s, who, "POST", "/v1/keys", registration(t, who, line, key))
	}

	key, mine := freshKey(t)
	wants(t, add("member", mine+" member@home", key), 201)
	got := add("owner", mine, key)
	if wants(t, got, 409); strings.Contains(got.text, "member") {
		t.Errorf("it is told whose it is: %s", got.text)
	}
	path := "/v1/keys/" + url.PathEscape(ssh.FingerprintSHA256(key.PublicKey()))
	wants(t, as(t, s, "owner", "DELETE", path, ""), 404)
	wants(t, as(t, s, "owner", "GET", "/v1/keys", ""), 200, `"items":[]`)
	wants(t, as(t, s, "member", "DELETE", path, ""), 204)
	wants(t, add("owner", mine, key), 201)

	for bits, status := range map[int]int{2048: 422, 3072: 201} {
		private, err := rsa.GenerateKey(rand.Reader, bits)
		key, line := signerOf(t, private, err)
		if got := add("owner", line, key); got.status != status || status == 422 &&
			!strings.Contains(got.text, "an RSA key needs 3072 bits, this one has 2048") {
			t.Errorf("RSA of %d bits: %d %s", bits, got.status, got.text)
		}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	curve, line := signerOf(t, private, err)
	wants(t, add("owner", line, curve), 201)
	touched := newSecurityKey(t)
	wants(t, add("owner", lineOf(touched), touched), 201)
	for wrong, says := range map[string]string{"x": "no SSH public key", mine + "\n" + mine: "2 lines",
		`command="id" ` + mine: "has options"} {
		wants(t, add("owner", wrong, key), 422, says)
	}
}

func TestAProjectKeepsAnOwner(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	wants(t, as(t, s, "operator", "POST", "/v1/projects", `{"name": "lab", "owner": "owner"}`), 201)
	for _, who := range []string{"owner", "operator"} {
		wants(t, as(t, s, who, "PUT", "/v1/projects/lab/members/owner", `{"role": "member"}`), 409,
			"the only owner of project lab", "make somebody else an owner first")
		wants(t, as(t, s, who, "DELETE", "/v1/projects/lab/members/owner", ""), 409)
	}
	wants(t, as(t, s, "owner", "PUT", "/v1/projects/lab/members/sam", `{"role": "owner"}`), 200)
	wants(t, as(t, s, "owner", "DELETE", "/v1/projects/lab/members/owner", ""), 409) // sam has not agreed yet
	wants(t, as(t, s, "sam", "POST", "/v1/projects/lab/join", ""), 204)
	wants(t, as(t, s, "owner", "DELETE", "/v1/projects/lab/members/owner", ""), 204)
	wants(t, as(t, s, "owner", "GET", "/v1/projects/lab/members", ""), 404)
	wants(t, as(t, s, "sam", "GET", "/v1/projects/lab/members", ""), 200, "sam")
}

func TestTheAuditLogTellsWhoDidWhatAndNoSecret(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)
	secret := made(t, s, "member", `{"name": "ci"}`).Token
	wants(t, as(t, s, secret, "POST", "/v1/clusters/aero%2Fcfd/pause", ""), 202)
	wants(t, as(t, s, "viewer", "DELETE", "/v1/clusters/aero%2Fcfd", ""), 403)
	wants(t, as(t, s, "viewer", "GET", "/v1/machines", ""), 403)
	wants(t, as(t, s, "viewer", "GET", "/v1/clusters/bio%2Fcfd", ""), 404)
	wants(t, as(t, s, "member", "DELETE", "/v1/tokens/"+secret, ""), 404)
	wants(t, as(t, s, "member", "POST", "/v1/keys", `{"line": "ssh-ed25519 AAAA"}`), 422)

	var entries []person.Entry
	if err := db.View(t.Context(), func(tx *core.Tx) (err error) {
		entries, err = person.Entries(context.Background(), tx, person.EntriesOf{Limit: 100})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range entries {
		told = append([]string{strings.Join([]string{e.Person, e.Action, e.Project, e.Object, e.Outcome}, " ")}, told...)
		if e.Remote == "" || e.Token == "" || e.At.IsZero() || e.Request == "" || e.Door != person.APIDoor {
			t.Errorf("something lacks in %+v", e)
		}
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, secret) || strings.Contains(text, person.HashToken(secret)) {
			t.Errorf("there is a secret in %s", text)
		}
	}
	want := []string{
		"member add-token   201", "member pause-cluster aero aero/cfd 202", "viewer delete-cluster aero aero/cfd 403",
		"viewer list-machines   403", "viewer get-cluster  bio/cfd 404",
		"member delete-token  (a token) 404", "member add-key   422",
	}
	slices.Sort(told) // entries of one instant stand in any order
	slices.Sort(want)
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log says\n%s\nand should say\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}

	for who, sees := range map[string][3]bool{ // what member did, what viewer did in aero, what viewer did outside
		"operator": {true, true, true}, "owner": {true, true, false}, "viewer": {false, true, true},
		"member": {true, false, false}, "nobody": {},
	} {
		got := as(t, s, who, "GET", "/v1/audit", "").text
		for i, action := range []string{"pause-cluster", "delete-cluster", "list-machines"} {
			if strings.Contains(got, action) != sees[i] {
				t.Errorf("%s sees %s: %t\n%s", who, action, !sees[i], got)
			}
		}
	}
	for query, want := range map[string]string{
		"show=refused&person=viewer&action=get-cluster":  "bio/cfd",
		"object=aero/cfd&action=pause-cluster&show=acts": "pause-cluster",
		"until=2020-01-01T00:00:00Z":                     "",
		"object=aero":                                    "",
		"action=get-cluster&show=acts&object=aero/cfd":   "",
	} {
		got := as(t, s, "operator", "GET", "/v1/audit?"+query, "").text
		if want == "" != strings.Contains(got, `"items":[]`) || !strings.Contains(got, want) {
			t.Errorf("%s:\n%s", query, got)
		}
	}
	wants(t, as(t, s, "operator", "GET", "/v1/audit?show=mine", ""), 422, "show")
	if got := as(t, s, "owner", "GET", "/v1/audit?project=bio", ""); names(got.text, "bio") {
		t.Error(got.text)
	}
	wants(t, as(t, s, "owner", "GET", "/v1/audit?project=aero&person=viewer", ""), 200, "delete-cluster")
	if got := as(t, s, "member", "GET", "/v1/audit?project=aero&person=viewer", ""); strings.Contains(got.text, "viewer") {
		t.Error(got.text)
	}
	first := as(t, s, "operator", "GET", "/v1/audit?limit=2", "")
	next, _ := first.body["next"].(string)
	if second := as(t, s, "operator", "GET", "/v1/audit?limit=2&cursor="+next, ""); next == "" || second.status != 200 ||
		strings.Contains(first.text, second.body["items"].([]any)[0].(map[string]any)["id"].(string)) {
		t.Errorf("%s\n%s", first.text, second.text)
	}
}
