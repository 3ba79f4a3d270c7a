package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apiv1 "muster/api/v1"
)

// TestMain lets the test binary be the program that ssh starts as its ProxyCommand.
func TestMain(m *testing.M) {
	if os.Getenv("MUSTER_TEST_PROGRAM") != "" {
		os.Exit(Execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// site plays the API.
type site struct {
	*http.ServeMux
	url string

	lock     sync.Mutex
	requests []string // "POST /v1/clusters?dry_run=true"
}

const testToken = "muster_test"

// newSite starts an API that knows no paths yet, and points the environment at it.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{ServeMux: http.NewServeMux()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.lock.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		s.lock.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+testToken {
			tellProblem(w, apiv1.Problem{Status: http.StatusUnauthorized, Code: "unauthorized",
				Detail: "a valid token is needed"})
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	t.Setenv(envURL, server.URL)
	t.Setenv(envToken, testToken)
	return s
}

func (s *site) asked() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]string(nil), s.requests...)
}

// answers makes a path answer always the same.
func (s *site) answers(pattern string, status int, body any) {
	s.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { reply(w, status, body) })
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func tellProblem(w http.ResponseWriter, p apiv1.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// list is one page.
func list[T any](items ...T) apiv1.List[T] { return apiv1.List[T]{Items: append([]T{}, items...)} }

// result is what a command line came to.
type result struct {
	code     int
	out, err string
}

// brisk is the usual pace, for tests.
func brisk() timing {
	return timing{
		repeats: []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond},
		back:    time.Millisecond, look: 20 * time.Millisecond, draw: 10 * time.Millisecond, quiet: time.Minute,
	}
}

// muster runs a command line.
func muster(t *testing.T, args ...string) result { return musterWith(t, brisk(), "", args...) }

func musterWith(t *testing.T, pace timing, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	return musterUntil(ctx, pace, strings.NewReader(stdin), args...)
}

func musterUntil(ctx context.Context, pace timing, stdin io.Reader, args ...string) result {
	var out, err bytes.Buffer
	a := &app{in: stdin, out: &screen{&out}, err: &screen{&err}, self: os.Executable, timing: pace}
	code := a.run(ctx, args)
	return result{code, out.String(), err.String()}
}

// wants checks an exit code, and words that must be in what was printed.
func (r result) wants(t *testing.T, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
	for _, word := range words {
		if !strings.Contains(r.out+r.err, word) {
			t.Errorf("nothing says %q\nstdout: %s\nstderr: %s", word, r.out, r.err)
		}
	}
}

// life plays a cluster whose story is told event by event; each event changes what GET shows.
type life struct {
	lock    sync.Mutex
	cluster apiv1.Cluster
	events  []apiv1.Event
	told    chan struct{} // closed and renewed at each event
}

func newLife(name string) *life {
	return &life{
		cluster: apiv1.Cluster{ID: "c1", Name: name, Project: "default", Phase: apiv1.Pending, Generation: 1, Nodes: []apiv1.Node{
			{ID: "h", Name: "head", Role: "head", Phase: apiv1.Pending, Machine: "local-1"},
			{ID: "a", Name: "n1", Role: "compute", Queue: "main", Phase: apiv1.Pending, Machine: "local-2"},
		}},
		told: make(chan struct{}),
	}
}

// happens logs an event and does what it tells.
func (l *life) happens(e apiv1.Event, change func(*apiv1.Cluster)) {
	l.lock.Lock()
	defer l.lock.Unlock()
	e.Seq, e.At, e.ClusterID, e.Cluster = int64(len(l.events)+1), time.Now(), l.cluster.ID, l.cluster.Name
	l.events = append(l.events, e)
	if change != nil {
		change(&l.cluster)
	}
	close(l.told)
	l.told = make(chan struct{})
}

// count is how many events there were.
func (l *life) count() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return len(l.events)
}

func (l *life) becomes(p apiv1.Phase, reason string) {
	l.happens(apiv1.Event{Type: "cluster.phase", Phase: p, Text: reason}, func(c *apiv1.Cluster) {
		c.Phase, c.Reason = p, reason
		if p == apiv1.Ready {
			c.Reached = c.Generation
		}
	})
}

func (l *life) now() apiv1.Cluster {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.cluster
}

// serve puts the cluster's paths on a site. A brittle stream ends after each event.
func (l *life) serve(s *site, brittle bool) (resumed func() []string) {
	var lock sync.Mutex
	var from []string
	s.HandleFunc("GET /v1/clusters/{ref}", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, l.now()) })
	s.HandleFunc("GET /v1/clusters/{ref}/events", func(w http.ResponseWriter, r *http.Request) {
		var after int
		if r.FormValue("watch") == "" {
			_, _ = fmt.Sscan(r.FormValue("after"), &after)
			l.lock.Lock()
			defer l.lock.Unlock()
			reply(w, 200, apiv1.List[apiv1.Event]{Items: l.events[after:]})
			return
		}
		lock.Lock()
		from = append(from, r.Header.Get("Last-Event-ID"))
		lock.Unlock()
		_, _ = fmt.Sscan(r.Header.Get("Last-Event-ID"), &after)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": events follow\n\n")
		for {
			l.lock.Lock()
			fresh, told := l.events[after:], l.told
			l.lock.Unlock()
			if brittle && len(fresh) > 1 {
				fresh = fresh[:1]
			}
			for _, e := range fresh {
				data, _ := json.Marshal(e)
				_, _ = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, data)
			}
			after += len(fresh)
			_ = http.NewResponseController(w).Flush()
			if brittle && len(fresh) > 0 {
				return
			}
			select {
			case <-told:
			case <-r.Context().Done():
				return
			}
		}
	})
	return func() []string {
		lock.Lock()
		defer lock.Unlock()
		return append([]string(nil), from...)
	}
}

func (l *life) answer(kind string) apiv1.Answer {
	c := l.now()
	return apiv1.Answer{Cluster: &c, Operation: &apiv1.Operation{Kind: kind, Cluster: c.ID, Generation: c.Generation}}
}
