package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/api"
	"muster/internal/core"
	"muster/internal/door/console"
	"muster/internal/kinds/person"
)

// browse asks as a page of the console does: with a cookie, if it has one.
func browse(t *testing.T, s *httptest.Server, cookie, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// signIn is the cookie that a credential gives; "" if none.
func signIn(t *testing.T, s *httptest.Server, credential string) string {
	t.Helper()
	response, text := browse(t, s, "", "POST", "/v1/console/session", credential)
	cookies := response.Cookies()
	if response.StatusCode != http.StatusOK {
		if len(cookies) > 0 {
			t.Errorf("a cookie beside %s", text)
		}
		return ""
	}
	if len(cookies) != 1 {
		t.Fatalf("%d cookies: %s", len(cookies), text)
	}
	if c := cookies[0]; !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" ||
		c.MaxAge < 1 || c.MaxAge > 12*60*60 || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("%+v", c)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

// codeOf is the code of an address that signs a browser in.
func codeOf(t *testing.T, s *httptest.Server, token string) string {
	t.Helper()
	got := as(t, s, token, "POST", "/v1/console/open", "")
	wants(t, got, 200)
	var opened apiv1.ConsoleOpened
	if err := json.Unmarshal([]byte(got.text), &opened); err != nil {
		t.Fatal(err)
	}
	code, found := strings.CutPrefix(opened.Path, "/sign-in#code=")
	if !found {
		t.Fatal(got.text)
	}
	return code
}

func statusOf(t *testing.T, s *httptest.Server, cookie, method, path string, headers ...string) int {
	t.Helper()
	response, _ := browse(t, s, cookie, method, path, "", headers...)
	return response.StatusCode
}

func TestABrowserIsSignedInByACodeOnceOrByAToken(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	code := codeOf(t, s, "sam")
	first := signIn(t, s, `{"code": "`+code+`"}`)
	second := signIn(t, s, `{"token": "sam"}`)
	for _, cookie := range []string{first, second} {
		if _, text := browse(t, s, cookie, "GET", "/v1/site", ""); !strings.Contains(text, `"identity":"sam"`) {
			t.Errorf("signed in as another one: %s", text)
		}
	}
	app := "an-apps-code"
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		return person.AddWebLogin(t.Context(), tx, person.HashToken(app), person.WebLogin{Token: "t-sam", Cluster: "c-aero",
			App: "jupyter"}, time.Minute)
	}); err != nil {
		t.Fatal(err)
	}
	for name, credential := range map[string]string{"a code once more": `{"code": "` + code + `"}`, "no code": `{"code": "x"}`,
		"no token": `{"token": "x"}`, "nothing": `{}`, "both": `{"token": "sam", "code": "x"}`,
		"an app's code": `{"code": "` + app + `"}`,
	} {
		if cookie := signIn(t, s, credential); cookie != "" {
			t.Errorf("%s signs a browser in", name)
		}
	}
	if err := db.View(t.Context(), func(tx *core.Tx) error { // what is refused uses nothing up
		is, err := person.IsWebCode(t.Context(), tx, person.HashToken(app))
		if !is {
			t.Error("the app's code is used up")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if status := statusOf(t, s, first, "DELETE", "/v1/console/session"); status != 204 {
		t.Errorf("signing out: %d", status)
	}
	one, other := statusOf(t, s, first, "GET", "/v1/site"), statusOf(t, s, second, "GET", "/v1/site")
	if one != 401 || other != 200 {
		t.Errorf("the one that signed out gets %d, the other %d", one, other)
	}
	wants(t, as(t, s, "sam", "DELETE", "/v1/console/session", ""), 204) // no browser
}

// No person knows a token of such a login, so nothing of it outlasts the browser.
func TestABrowserIsSignedInByTheProviderUntilItSignsOut(t *testing.T) {
	s, db, issuer, _ := loginServer(t, true)
	came := func(code, nonce string) string {
		issuer.Codes.Store(code, issuer.Token(issuer.Claims(map[string]any{"nonce": nonce, "jti": code})))
		return `{"provider": {"code": "` + code + `", "verifier": "v", "redirect": "https://muster.example/sign-in", "nonce": "n"}}`
	}
	logins := func(want int) {
		t.Helper()
		if err := db.View(t.Context(), func(tx *core.Tx) error {
			all, err := person.Tokens(t.Context(), tx, "alice")
			if len(all) != want {
				t.Errorf("alice has %d logins, not %d: %+v", len(all), want, all)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if response, text := browse(t, s, "", "POST", "/v1/console/session", came("foreign", "n"), "Sec-Fetch-Site",
		"cross-site"); response.StatusCode != 403 {
		t.Errorf("another site's page signs a browser in: %s", text)
	}
	if cookie := signIn(t, s, came("planted", "somebody else's")); cookie != "" {
		t.Error("a code of another login signs a browser in")
	}
	logins(0)
	one := came("1", "n")
	proof, _ := issuer.Codes.Load("1")
	first := signIn(t, s, one)
	if _, text := browse(t, s, first, "GET", "/v1/site", ""); !strings.Contains(text, `"identity":"alice"`) {
		t.Errorf("signed in as another one: %s", text)
	}
	issuer.Codes.Store("1", proof) // that very one: what is signed in another second is another proof
	if cookie := signIn(t, s, one); cookie != "" {
		t.Error("a proof signs a browser in once more")
	}
	second, third := signIn(t, s, came("2", "n")), signIn(t, s, came("3", "n"))
	logins(3)
	if status := statusOf(t, s, first, "DELETE", "/v1/console/session"); status != 204 {
		t.Errorf("signing out: %d", status)
	}
	logins(2)
	out, in := statusOf(t, s, first, "GET", "/v1/site"), statusOf(t, s, second, "GET", "/v1/site")
	if out != 401 || in != 200 {
		t.Errorf("the one that signed out gets %d, the other %d", out, in)
	}
	if status := statusOf(t, s, third, "DELETE", "/v1/console/session?all=true"); status != 204 {
		t.Errorf("signing all out: %d", status)
	}
	logins(0)
	if status := statusOf(t, s, second, "GET", "/v1/site"); status != 401 {
		t.Errorf("another browser gets %d after all were signed out", status)
	}
	strangers, _, another, _ := loginServer(t, false)
	issuer = another
	if response, text := browse(t, strangers, "", "POST", "/v1/console/session", came("1", "n")); response.StatusCode != 403 ||
		len(response.Cookies()) > 0 {
		t.Errorf("who is unknown here comes in: %s", text)
	}
	without, _ := server(t, 0)
	if response, text := browse(t, without, "", "POST", "/v1/console/session", came("1", "n")); response.StatusCode != 404 {
		t.Errorf("a site without a provider answers %s", text)
	}
}

func TestABrowserMayWhatItsTokenMay(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	looks := made(t, s, "sam", `{"name": "dashboard", "scope": "read"}`)
	cookie := signIn(t, s, `{"token": "`+looks.Token+`"}`)
	if status := statusOf(t, s, cookie, "GET", "/v1/clusters/aero%2Fcfd"); status != 200 {
		t.Error(status)
	}
	if status := statusOf(t, s, cookie, "DELETE", "/v1/clusters/aero%2Fcfd"); status != 403 {
		t.Errorf("a browser that only looks deletes: %d", status)
	}
	wants(t, as(t, s, "sam", "DELETE", "/v1/tokens/"+looks.ID, ""), 204)
	if status := statusOf(t, s, cookie, "GET", "/v1/site"); status != 401 {
		t.Errorf("its token is revoked: %d", status)
	}
}

func TestABrowserMakesNoWayInThatOutlivesIt(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	cookie := signIn(t, s, `{"token": "operator"}`)
	for path, body := range map[string]string{"/v1/console/open": "", "/v1/tokens": `{"name": "for ever"}`,
		"/v1/keys": `{"line": "` + hostKey + `"}`, "/v1/people/sam/tokens": `{"name": "for ever"}`,
		"/v1/people": `{"name": "eve"}`, "/v1/clusters/aero%2Fcfd/certificate": `{"public_key": "` + hostKey + `"}`} {
		if response, text := browse(t, s, cookie, "POST", path, body); response.StatusCode != 403 ||
			!strings.Contains(text, "no other way in") {
			t.Errorf("%s: %d %s", path, response.StatusCode, text)
		}
	}
}

func TestSomebodySignsAllTheirBrowsersOut(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	first, second, other := signIn(t, s, `{"token": "sam"}`), signIn(t, s, `{"token": "sam"}`), signIn(t, s, `{"token": "olga"}`)
	wants(t, as(t, s, "sam", "DELETE", "/v1/console/session?all=true", ""), 204)
	for cookie, want := range map[string]int{first: 401, second: 401, other: 200} {
		if got := statusOf(t, s, cookie, "GET", "/v1/site"); got != want {
			t.Errorf("a browser gets %d, and %d is right", got, want)
		}
	}
}

func TestStrangersWhoTryAndTryLeaveOneRow(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	for range 5 {
		if cookie := signIn(t, s, `{"token": "made up"}`); cookie != "" {
			t.Fatal("a made-up token signs in")
		}
	}
	rows := 0
	if err := db.View(t.Context(), func(tx *core.Tx) error {
		return tx.Row(t.Context(), `SELECT COUNT(*) FROM audit WHERE action = 'sign-in'`).Scan(&rows)
	}); err != nil || rows != 1 {
		t.Errorf("they leave %d rows: %v", rows, err)
	}
}

// TestNoPageElsewhereSignsABrowserIn as somebody else, under whose name it would work then.
func TestNoPageElsewhereSignsABrowserIn(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	for _, site := range []string{"same-site", "cross-site"} {
		response, text := browse(t, s, "", "POST", "/v1/console/session", `{"token": "sam"}`, "Sec-Fetch-Site", site)
		if response.StatusCode != 403 || len(response.Cookies()) > 0 {
			t.Errorf("%s: %d %s", site, response.StatusCode, text)
		}
	}
	first := signIn(t, s, `{"token": "sam"}`)
	response, _ := browse(t, s, first, "POST", "/v1/console/session", `{"token": "olga"}`)
	if len(response.Cookies()) != 1 || statusOf(t, s, first, "GET", "/v1/site") != 401 {
		t.Error("the cookie that is replaced is good yet")
	}
}

func TestPagesOfOtherSitesGetNothingWithTheConsolesCookie(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	cookie := signIn(t, s, `{"token": "sam"}`)
	for name, c := range map[string]struct {
		method string
		header []string
		status int
	}{
		"its own page":       {"GET", nil, 200},
		"an app's page":      {"GET", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"another site's":     {"GET", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another's form":     {"POST", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.test"}, 403},
		"an old browser's":   {"POST", []string{"Sec-Fetch-Site", "", "Origin", "https://evil.test"}, 403},
		"two cookies":        {"GET", []string{"Cookie", cookie + "; " + cookie}, 401},
		"a token beside it":  {"GET", []string{"Sec-Fetch-Site", "cross-site", "Authorization", "Bearer sam"}, 200},
		"a wrong one beside": {"GET", []string{"Authorization", "Bearer x"}, 401},
	} {
		path := "/v1/site"
		if c.method == "POST" {
			path = "/v1/clusters/aero%2Fcfd/resume"
		}
		if status := statusOf(t, s, cookie, c.method, path, c.header...); status != c.status {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
	}
}

func TestWhatABrowserDoesStandsInTheAuditLogAsTheConsoles(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	cookie := signIn(t, s, `{"token": "sam"}`)
	if status := statusOf(t, s, cookie, "POST", "/v1/clusters/aero%2Fcfd/resume"); status >= 400 {
		t.Fatal(status)
	}
	doors := map[string]person.Door{}
	if err := db.View(t.Context(), func(tx *core.Tx) error {
		entries, err := person.Entries(t.Context(), tx, person.EntriesOf{Person: "sam", Limit: 100})
		for _, e := range entries {
			doors[e.Action] = e.Door
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"sign-in", "resume-cluster"} {
		if doors[action] != person.ConsoleDoor {
			t.Errorf("%s came in by %q", action, doors[action])
		}
	}
}

func TestAnAnswerThatLastsEndsWhenItsBrowserSignsOut(t *testing.T) {
	s, db := server(t, 2)
	tenants(t, db)
	cookie := signIn(t, s, `{"token": "sam"}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/v1/events?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if status := statusOf(t, s, cookie, "DELETE", "/v1/console/session"); status != 204 {
		t.Fatal(status)
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("it goes on: %v", err)
	}
}

func TestTheConsoleIsWhereNoOperationIs(t *testing.T) {
	built, err := console.New(fstest.MapFS{"index.html": {Data: []byte("the console")}, "theme.js": {Data: []byte("light")}})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := server(t, 1, func(a *api.API) { a.Console = built })
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/": {200, "the console"}, "/clusters/cfd": {200, "the console"}, "/theme.js": {200, "light"},
		"/v1/nothing": {404, "not-found"}, "/openapi.yaml": {200, "openapi: 3.1.0"},
	} {
		response, text := browse(t, s, "", "GET", path, "", "Accept", "text/html")
		if response.StatusCode != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d %.100s", path, response.StatusCode, text)
		}
	}
	if got := call(t, s, "GET", "/clusters", ""); got.status != 404 {
		t.Errorf("a program gets a page: %d", got.status)
	}
}
