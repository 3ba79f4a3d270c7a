package cli

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
)

// kept leaves a login at a controller as `muster login` does.
func kept(t *testing.T, address, token string, life time.Duration) *url.URL {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l := savedLogin{Controller: address, ID: "t1", Token: token, Person: "alice", ExpiresAt: time.Now().Add(life)}
	if err := l.save(base); err != nil {
		t.Fatal(err)
	}
	return base
}

func TestWhatALoginLeftIsFound(t *testing.T) {
	whoami := func(s *site) {
		s.answers("GET /v1/site", 200, apiv1.Site{Site: "home", Identity: "alice"})
	}
	t.Run("where no token is named", func(t *testing.T) {
		s := newSite(t)
		whoami(s)
		t.Setenv(envToken, "")
		kept(t, s.url, testToken, time.Hour)
		muster(t, "whoami").wants(t, 0, "alice")
	})
	t.Run("after MUSTER_TOKEN", func(t *testing.T) {
		s := newSite(t)
		whoami(s)
		kept(t, s.url, "muster_other", time.Hour)
		muster(t, "whoami").wants(t, 0, "alice")
	})
	t.Run("not at another controller", func(t *testing.T) {
		s := newSite(t)
		t.Setenv(envToken, "")
		kept(t, "http://elsewhere.example", testToken, time.Hour)
		muster(t, "whoami").wants(t, exitOther, "you are not logged in at "+s.url, "`muster login`")
	})
	t.Run("before the local administrator's, also when it has ended", func(t *testing.T) {
		s := newSite(t)
		whoami(s)
		t.Setenv(envURL, "")
		t.Setenv(envToken, "")
		dir := t.TempDir()
		t.Setenv(envData, dir)
		for name, text := range map[string]string{"controller.json": `{"url": "` + s.url + `"}`, "admin.token": testToken} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		base := kept(t, s.url, "muster_ended", -time.Minute)
		muster(t, "whoami").wants(t, exitOther, "your login as alice has ended", "`muster login`", "`muster logout`")
		s.HandleFunc("DELETE /v1/tokens/t1", func(http.ResponseWriter, *http.Request) { t.Error("an ended token opens the API") })
		muster(t, "logout").wants(t, 0, "alice is logged out")
		if _, err := readLogin(base); !errors.Is(err, fs.ErrNotExist) {
			t.Error("it is kept after the logout:", err)
		}
		muster(t, "whoami").wants(t, 0, "alice")
	})
	t.Run("and is for its user alone", func(t *testing.T) {
		path, err := loginPath(kept(t, "https://muster.example.org/lab", testToken, time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for path, mode := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			if about, err := os.Stat(path); err != nil || about.Mode().Perm() != mode {
				t.Error(path, about, err)
			}
		}
	})
}

func TestALogoutThatCannotReachTheControllerForgetsHereAndSaysSo(t *testing.T) {
	s := newSite(t)
	s.answers("DELETE /v1/tokens/t1", 503,
		apiv1.Problem{Status: 503, Code: "unavailable", Detail: "the database does not answer"})
	base := kept(t, s.url, testToken, time.Hour)
	muster(t, "logout").wants(t, exitOther, "good elsewhere until", "the database does not answer")
	if _, err := readLogin(base); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	muster(t, "logout").wants(t, exitNotFound, "not logged in at "+s.url)
}

func TestALoginThatComesToNothingSaysWhy(t *testing.T) {
	for name, c := range map[string]struct{ answer, words string }{
		"refused":  {`{"error": "access_denied"}`, "was refused in the browser"},
		"too late": {`{"error": "expired_token"}`, "not typed in time"},
		"wrong": {`{"error": "invalid_client", "error_description": "s3cret-device-code"}`,
			"the provider says invalid_client"},
		"no OIDC": {`{"access_token": "s3cret", "token_type": "bearer"}`, "scope openid"},
	} {
		t.Run(name, func(t *testing.T) {
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Path == "/device" {
					_, _ = io.WriteString(w, `{"device_code": "s3cret-device-code", "user_code": "WDJB-MJHT", "verification_uri": "https://id.example.org/device", "expires_in": 600, "interval": 1}`)
					return
				}
				if !strings.Contains(c.answer, "access_token") {
					w.WriteHeader(http.StatusBadRequest)
				}
				_, _ = io.WriteString(w, c.answer)
			}))
			defer provider.Close()
			s := openSite(t, apiv1.Ways{Issuer: "https://id.example.org", ClientID: "muster", Scopes: []string{"openid"},
				Device: provider.URL + "/device", Token: provider.URL + "/token"})
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			t.Setenv(envURL, s)
			r := muster(t, "login")
			r.wants(t, exitOther, "type the code WDJB-MJHT", c.words)
			if strings.Contains(r.err+r.out, "s3cret") {
				t.Errorf("it tells a secret: %s", r.err)
			}
		})
	}
	t.Run("no codes", func(t *testing.T) {
		t.Setenv("XDG_CONFIG_HOME", t.TempDir())
		t.Setenv(envURL, openSite(t, apiv1.Ways{Issuer: "https://id.example.org", ClientID: "muster"}))
		muster(t, "login").wants(t, exitOther, "`muster login --browser`")
	})
}

// openSite is a controller that tells everybody how one logs in.
func openSite(t *testing.T, ways apiv1.Ways) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a login shows a token")
		}
		reply(w, http.StatusOK, ways)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestABrowserThatComesBackIsListenedToOnce(t *testing.T) {
	for query, want := range map[string]string{
		"state=right&code=c1":             "c1",
		"state=right&error=access_denied": `the provider says "access_denied"`,
		"state=right":                     "without a code",
		"state=wrong&code=c1":             "",
		"code=c1":                         "",
	} {
		returned := make(chan returning, 1)
		page := callback("right", returned)
		for range 2 { // people load pages again
			page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/callback?"+query, nil))
		}
		got := ""
		select {
		case r := <-returned:
			got = r.code
			if r.err != nil {
				got = r.err.Error()
			}
		default:
		}
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, %q wanted", query, got, want)
		}
	}
}

func TestAKeyFileOfSomebodyElseIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "id")
	if err := freeForKey(path, savedLogin{}); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := freeForKey(path, savedLogin{}); err == nil {
		t.Error("a key is written over")
	}
	if err := freeForKey(path, savedLogin{KeyFile: path}); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(savedLogin{Token: "x"})
	if err != nil || strings.Contains(string(text), "private") {
		t.Error(string(text), err)
	}
}
