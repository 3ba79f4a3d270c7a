package compare_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// TestCompareLists lists all machines of sites of several sizes, each machine with the facts of a DGX H100. The limit beside it
// is the same command that asks a server which has every answer in memory: what is more is the controller's.
func TestCompareLists(t *testing.T) {
	testall.Only(t)
	for _, n := range size.listed {
		r := rig.New(t, "")
		r.Start().Stop() // makes the database
		r.Enrol(n)
		controller := r.Start()
		token, err := os.ReadFile(filepath.Join(r.Data, "admin.token"))
		if err != nil {
			t.Fatal(err)
		}
		kept := keeper(t, controller.URL)
		list := func(from string) float64 {
			c := command(t, r.Binary, "machines", "list")
			c.Env = append(os.Environ(), "MUSTER_URL="+from, "MUSTER_TOKEN="+strings.TrimSpace(string(token)))
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			began := time.Now()
			if err := c.Run(); err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
			took := time.Since(began)
			if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != n+1 || !strings.Contains(out.String(), "dgx") {
				t.Fatalf("%d machines are listed in %d lines", n, lines)
			}
			return took.Seconds()
		}
		list(kept)
		var ours, theirs samples
		for range size.lists {
			ours, theirs = append(ours, list(controller.URL)), append(theirs, list(kept))
		}
		controller.Stop()
		results.add(t, row{fmt.Sprintf("list %d machines", n), "s", "answers in memory", ours, theirs,
			map[bool]string{true: "under 0.5 s"}[n == 10_000]})
	}
}

// keeper is a server before another one, each of whose answers it asks for once.
func keeper(t *testing.T, before string) string {
	t.Helper()
	to, err := url.Parse(before)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	var lock sync.Mutex
	answers := map[string]*httptest.ResponseRecorder{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		answer := answers[r.URL.String()]
		if answer == nil {
			answer = httptest.NewRecorder()
			proxy.ServeHTTP(answer, r)
			answers[r.URL.String()] = answer
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = io.Copy(w, bytes.NewReader(answer.Body.Bytes()))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
