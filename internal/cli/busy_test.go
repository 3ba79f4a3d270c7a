package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apiv1 "muster/api/v1"
)

func TestATokenGoesToNoOtherHostInClear(t *testing.T) {
	for _, address := range []string{"http://muster.example", "http://192.0.2.1:7420", "http://[2001:db8::1]:7420",
		"http://localhost.example", "http://127.0.0.1.example", "http://0.0.0.0:1", "HTTP://MUSTER.example"} {
		t.Setenv(envURL, address)
		t.Setenv(envToken, testToken)
		for _, args := range [][]string{{"whoami"}, {"events", "-w"}, {"tunnel", "hello"}, {"login"}} {
			muster(t, args...).wants(t, 1, "in clear", "https://", "ssh -L 7420:localhost:", "--insecure")
		}
	}
	s := newSite(t) // on this host
	s.answers("GET /v1/site", 200, apiv1.Site{Site: "home", Identity: "ada"})
	muster(t, "whoami").wants(t, 0)
	t.Setenv(envURL, strings.Replace(s.url, "127.0.0.1", "localhost", 1))
	muster(t, "whoami").wants(t, 0)
	t.Run("but to one that is trusted", func(t *testing.T) {
		t.Setenv(envURL, "http://muster.example")
		c := &app{insecure: true, timing: brisk()}
		if _, err := c.connect(); err != nil {
			t.Error(err)
		}
		t.Setenv(envInsecure, "1")
		if _, err := (&app{timing: brisk()}).connect(); err != nil {
			t.Error(err)
		}
		t.Setenv(envInsecure, "0")
		if _, err := (&app{timing: brisk()}).connect(); err == nil {
			t.Error("a token goes there in clear")
		}
	})
}

func TestARedirectTakesTheTokenNowhereElse(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(true)
		reply(w, 200, apiv1.Site{Site: "home", Identity: "ada"})
	}))
	defer other.Close()
	s := newSite(t)
	for _, to := range []string{other.URL + "/v1/site", "http://muster.example/v1/site",
		strings.Replace(s.url, "127.0.0.1", "localhost", 1) + "/v1/site"} {
		s.ServeMux = http.NewServeMux()
		s.HandleFunc("GET /v1/site", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		})
		muster(t, "whoami").wants(t, 1, "redirects to", "is not sent there")
	}
	if leaked.Load() {
		t.Error("another host was asked")
	}
	s.ServeMux = http.NewServeMux() // to another path of the same
	s.HandleFunc("GET /v1/site", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/v2/site?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
	})
	s.answers("GET /v2/site", 200, apiv1.Site{Site: "home", Identity: "ada"})
	muster(t, "whoami").wants(t, 0)
}

func TestABusyControllerIsWaitedFor(t *testing.T) {
	s := newSite(t)
	var calls atomic.Int64
	const refusals = 2
	answer := func(w http.ResponseWriter, status int, after string) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		tellProblem(w, apiv1.Problem{Status: status, Code: "unavailable",
			Detail: "ada has 32 requests open, which is all that one may have at once"})
	}
	s.HandleFunc("GET /v1/site", func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) <= refusals {
			answer(w, 429, "1")
			return
		}
		reply(w, 200, apiv1.Site{Site: "home", Identity: "ada"})
	})
	r := muster(t, "whoami")
	r.wants(t, 0, "the controller is busy: ada has 32 requests open")
	if n := strings.Count(r.err, "busy"); n != 1 || calls.Load() != refusals+1 {
		t.Errorf("%d calls, said %d times: %s", calls.Load(), n, r.err)
	}
	// Without a word about when, it is an error like any other.
	calls.Store(0)
	s.ServeMux = http.NewServeMux()
	s.HandleFunc("GET /v1/site", func(w http.ResponseWriter, _ *http.Request) { calls.Add(1); answer(w, 429, "") })
	muster(t, "whoami").wants(t, 1, "error: ada has 32 requests open")
	if calls.Load() != 1 {
		t.Error(calls.Load(), "calls")
	}
}
