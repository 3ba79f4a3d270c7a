package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/api"
	"muster/internal/boot/images"
	"muster/internal/core"
	"muster/internal/door/gateway/client"
	"muster/internal/door/terminal"
	"muster/internal/drivers"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

const token = kindstest.Token

type oneImage struct{}

func (oneImage) List() ([]images.Image, error) {
	return []images.Image{{Manifest: images.Manifest{Name: "debian13-hpc", Digest: "sha256:00", Arch: "amd64"}}}, nil
}

func (oneImage) With([]string) []string { return nil }

func (oneImage) Image(name string) (admission.Image, error) {
	if name != "debian13-hpc" {
		return admission.Image{}, errors.New("there is no image " + name)
	}
	return admission.Image{Name: name, Digest: "sha256:00", Arch: "amd64"}, nil
}

// echo answers every dial with a peer that repeats what it hears.
type echo struct{}

func (echo) Dial(context.Context, string, netip.AddrPort) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(far, far); _ = far.Close() }()
	return near, nil
}

// server is an API over a fresh SQLite with free machines.
func server(t *testing.T, machines int, changes ...func(*api.API)) (*httptest.Server, *core.Store) {
	t.Helper()
	db := kindstest.Open(t, t.TempDir()+"/db")
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := inventory.ReadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *core.Tx) error {
		for i := range machines {
			id := fmt.Sprintf("m%d", i+1)
			if err := machine.Add(t.Context(), tx,
				inventory.Machine{ID: id, Name: id, Substrate: "local", Facts: inventory.Facts{Arch: "amd64"}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	makeAvailable(t, db)
	a := &api.API{
		DB: db, Admission: &admission.Admission{Catalogue: catalogue, Images: oneImage{}, Schedulers: drivers.Schedulers(),
			Substrates: drivers.Substrates()}, Authority: authority, Images: oneImage{}, Dialer: echo{},
		Drivers: api.Drivers{Power: drivers.Power(), Switches: drivers.Switches(), Substrates: drivers.Substrates()},
		Version: "test", Log: slog.New(slog.DiscardHandler),
		Terminals: terminal.New(client.New(authority, slog.New(slog.DiscardHandler)), terminal.UsualLimits(), nil),
	}
	for _, change := range changes {
		change(a)
	}
	handler, err := a.Handler()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s, db
}

func makeAvailable(t *testing.T, db *core.Store) {
	t.Helper()
	claims, err := db.Claim(t.Context(), machine.Kind, "test", time.Minute, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		if err := db.Update(t.Context(), func(tx *core.Tx) error {
			return tx.Settle(t.Context(), c, core.Settlement{Phase: machine.Available, Never: true})
		}); err != nil {
			t.Fatal(err)
		}
	}
}

type reply struct {
	status int
	body   map[string]any
	text   string
}

func call(t *testing.T, s *httptest.Server, method, path, body string, headers ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/yaml")
		if strings.HasPrefix(body, "{") {
			r.Header.Set("Content-Type", "application/json")
		}
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := reply{status: response.StatusCode, text: string(text)}
	_ = json.Unmarshal(text, &out.body)
	return out
}

func clusters(t *testing.T, db *core.Store) (n int) {
	t.Helper()
	if err := db.View(t.Context(), func(tx *core.Tx) error {
		all, err := cluster.List(t.Context(), tx, "")
		n = len(all)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestErrorsSayWhatWhereAndWhatWouldWork(t *testing.T) {
	s, db := server(t, 2)
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code, contains           string
	}{
		{"no token", "GET", "/v1/clusters", "", []string{"Authorization", ""}, 401, "unauthorized", "MUSTER_TOKEN"},
		{"a wrong token", "GET", "/v1/clusters", "", []string{"Authorization", "Bearer x"}, 401, "unauthorized", "valid token"},
		{"an unknown path", "GET", "/v1/nothing", "", nil, 404, "not-found", "/openapi.yaml"},
		{"an unknown cluster", "GET", "/v1/clusters/x", "", nil, 404, "not-found", "cluster x"},
		{"an unknown field", "POST", "/v1/clusters", "name: a\nnodez: 3\n", nil, 422, "invalid", `"line":2`},
		{"an unknown class", "POST", "/v1/clusters", "name: a\nqueues:\n  - {name: cpu, class: gold, nodes: 1}\n", nil, 422,
			"invalid", `"line":3,"col":24`},
		{"an unknown image", "POST", "/v1/clusters", "name: a\nnodes: 1\nimage: x\n", nil, 422, "invalid", "there is no image x"},
		{"too many nodes", "POST", "/v1/clusters", "name: a\nnodes: 9\n", nil, 409, "no-capacity",
			"class local: 9 asked, 2 free"},
		{"a dry run of too many", "POST", "/v1/clusters?dry_run=true", "name: a\nnodes: 9\n", nil, 409, "no-capacity",
			`"line":2`},
		{"a negative page", "GET", "/v1/clusters?limit=0", "", nil, 422, "invalid", "query.limit"},
		{"scaling nothing", "POST", "/v1/clusters/x/scale", `{"nodes": 2}`, nil, 404, "not-found", "cluster x"},
		{"an unknown machine", "POST", "/v1/machines/x/inspect", "", nil, 404, "not-found", "machine x"},
		{"a key that is none", "POST", "/v1/keys", `{"line": "hello"}`, nil, 422, "invalid", ".pub"},
		{"a tunnel without upgrade", "GET", "/v1/clusters/x/tunnel", "", nil, 426, "invalid", "muster-tunnel"},
		{"a class file of another name", "PUT", "/v1/clusters/b", "name: a\nnodes: 1\n", nil, 404, "not-found", "cluster b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := call(t, s, c.method, c.path, c.body, c.headers...)
			if got.status != c.status || got.body["code"] != c.code || !strings.Contains(got.text, c.contains) {
				t.Errorf("%d %s", got.status, got.text)
			}
		})
	}
	if n := clusters(t, db); n != 0 {
		t.Errorf("%d clusters were made by bad requests", n)
	}
}

func TestADryRunPlansAndChangesNothing(t *testing.T) {
	s, db := server(t, 4)
	got := call(t, s, "POST", "/v1/clusters?dry_run=true", "name: hello\nnodes: 3\n")
	add, _ := got.body["add"].([]any)
	if got.status != 200 || len(add) != 4 || got.body["cluster"] != nil || clusters(t, db) != 0 {
		t.Fatal(got.status, got.text)
	}
	if first := add[0].(map[string]any); first["node"] != "head" || first["machine"] != "m1" {
		t.Error(first)
	}
}

// TestADryRunSaysHowLongNodesTake by those of the same class that are ready.
func TestADryRunSaysHowLongNodesTake(t *testing.T) {
	s, db := server(t, 14)
	ask := func() any {
		return call(t, s, "POST", "/v1/clusters?dry_run=true", "name: hello\nnodes: 1\n").body["ready_in"]
	}
	if got := ask(); got != nil {
		t.Errorf("while no node is ready: %v", got)
	}
	call(t, s, "POST", "/v1/clusters", "name: other\nnodes: 10\n")
	kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
		for i, name := range strings.Fields("head n1 n2 n3 n4 n5 n6 n7 n8 n9 n10") {
			_, wrong := tx.Exec(ctx, `UPDATE node SET phase = 'ready', boot = 1, phase_at = created_at + $2 WHERE name = $1`, name,
				(i+1)*1000)
			err = errors.Join(err, wrong)
		}
		return err
	})
	if got := fmt.Sprint(ask()); got != "map[high_seconds:10 low_seconds:2 nodes:11]" {
		t.Error(got)
	}
}

func TestADryRunThatIsRefusedOffersWhatWouldFit(t *testing.T) {
	s, _ := server(t, 4)
	for path, want := range map[string]bool{"POST /v1/clusters?dry_run=true": true, "PUT /v1/clusters/hello?dry_run=true": true,
		"POST /v1/clusters": false} {
		method, path, _ := strings.Cut(path, " ")
		got := call(t, s, method, path, "name: hello\nnodes: 5\n")
		offers := strings.Contains(got.text, `"offers":[{"kind":"smaller","text":"3 nodes of queue main fit: nodes: 3","queue":"main","nodes":3}]`)
		if got.status != 409 || offers != want {
			t.Errorf("%s %s: %d %s", method, path, got.status, got.text)
		}
	}
}

// What a request has the database do is its person's, and plans that are only looked at keep no other reader waiting.
func TestPlansThatTakeLongKeepNobodyWaiting(t *testing.T) {
	payers, goOn := make(chan string, 100), make(chan struct{})
	s, _ := server(t, 4, func(a *api.API) {
		a.Admission.Short = func(ctx context.Context) string {
			payers <- core.Payer(ctx)
			<-goOn
			return ""
		}
	})
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			if got := call(t, s, "POST", "/v1/clusters?dry_run=true", "name: hello\nnodes: 3\n"); got.status != 200 {
				t.Error(got.status, got.text)
			}
		})
	}
	for range 2 {
		if payer := <-payers; payer != "person "+kindstest.Admin {
			t.Errorf("it is counted for %q", payer)
		}
	}
	listed := make(chan int, 1)
	go func() { listed <- call(t, s, "GET", "/v1/clusters", "").status }()
	select {
	case status := <-listed:
		if status != 200 {
			t.Error(status)
		}
	case <-time.After(time.Minute):
		t.Error("a list waits for plans")
	}
	close(goOn)
	runs.Wait()
}

func TestARepeatedRequestIsDoneOnce(t *testing.T) {
	s, db := server(t, 8)
	first := call(t, s, "POST", "/v1/clusters", "name: hello\nnodes: 3\n", "Idempotency-Key", "k1")
	again := call(t, s, "POST", "/v1/clusters", "name: hello\nnodes: 3\n", "Idempotency-Key", "k1")
	if first.status != 202 || again.status != 202 || first.text != again.text || clusters(t, db) != 1 {
		t.Fatal(first.status, again.status, again.text)
	}
	if other := call(t, s, "POST", "/v1/clusters", "name: other\nnodes: 1\n", "Idempotency-Key", "k1"); other.status != 422 {
		t.Error("another request under the same key:", other.status, other.text)
	}
	if bare := call(t, s, "POST", "/v1/clusters", "name: hello\nnodes: 3\n"); bare.status != 409 ||
		bare.body["code"] != "conflict" {
		t.Error("the name again without a key:", bare.status, bare.text)
	}
}

func TestApplyChangesOnlyWhatDiffers(t *testing.T) {
	s, _ := server(t, 8)
	if got := call(t, s, "PUT", "/v1/clusters/hello", "name: hello\nnodes: 3\n"); got.status != 202 {
		t.Fatal(got.text)
	}
	if got := call(t, s, "PUT", "/v1/clusters/hello", "name: hello\nnodes: 3\n"); got.status != 200 ||
		got.body["operation"] != nil {
		t.Error("nothing to change:", got.status, got.text)
	}
	got := call(t, s, "PUT", "/v1/clusters/hello", "name: hello\nnodes: 5\n")
	operation, _ := got.body["operation"].(map[string]any)
	if got.status != 202 || operation["generation"] != 2.0 || len(got.body["add"].([]any)) != 2 {
		t.Error(got.status, got.text)
	}
	if got := call(t, s, "POST", "/v1/clusters/hello/scale", `{"nodes": 1}`); got.status != 202 ||
		len(got.body["release"].([]any)) != 4 {
		t.Error(got.status, got.text)
	}
	for _, forbidden := range []string{"name: hello\nnodes: 1\nhead: {class: local}\n", "name: hello2\nnodes: 1\n"} {
		if got := call(t, s, "PUT", "/v1/clusters/hello", forbidden); got.status != 422 ||
			!strings.Contains(got.text, "unchangeable") {
			t.Errorf("%q: %d %s", forbidden, got.status, got.text)
		}
	}
}

func TestAWatchGoesOnWhereTheLastEventWas(t *testing.T) {
	s, db := server(t, 1)
	log := func(text string) {
		if err := db.Update(t.Context(), func(tx *core.Tx) error {
			tx.Log(core.Event{Type: "test", Text: text})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	log("one")
	log("two")
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/v1/events?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Last-Event-ID", "1")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	next := eventsIn(t, response.Body)
	if id, text := next(); id != "2" || text != "two" {
		t.Fatal(id, text)
	}
	log("three")
	if id, text := next(); id != "3" || text != "three" {
		t.Fatal(id, text)
	}
}

// eventsIn reads the events of a stream, one after the other.
func eventsIn(t *testing.T, stream io.Reader) (next func() (id, text string)) {
	lines := bufio.NewScanner(stream)
	return func() (id, text string) {
		t.Helper()
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				id = rest
			}
			if rest, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e core.Event
				if err := json.Unmarshal([]byte(rest), &e); err != nil {
					t.Fatal(err)
				}
				return id, e.Text
			}
		}
		t.Fatal("the stream ended")
		return "", ""
	}
}

// A watch of what is rare does not read what it has passed over again whenever somebody writes.
func TestAWatchGoesOnFromTheNewestEvent(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)
	log := func(project, text string) {
		change(t, db, func(_ context.Context, tx *core.Tx) error {
			tx.Log(core.Event{Type: "test", Project: project, Text: text})
			return nil
		})
	}
	for range 5 {
		log("bio", "of another project")
	}
	watch := func(who string) (next func() (id, text string)) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/v1/events?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+who)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return eventsIn(t, response.Body)
	}
	shows := func(next func() (id, text string), want string) {
		for _, text := next(); text != want; _, text = next() {
		}
	}
	next, operators := watch("member"), watch("operator")
	log("aero", "one")
	shows(next, "one")
	log("bio", "passed")
	shows(operators, "passed")
	time.Sleep(time.Second)                                      // the member's has looked, too
	change(t, db, func(ctx context.Context, tx *core.Tx) error { // where it has looked already
		_, err := tx.Exec(ctx, `UPDATE event SET project = 'aero', text = 'passed over' WHERE seq = (SELECT MAX(seq) FROM event)`)
		return err
	})
	log("aero", "two")
	if _, text := next(); text != "two" {
		t.Errorf("after one comes %q", text)
	}
}

func TestPagesAreWholeAndDisjoint(t *testing.T) {
	s, _ := server(t, 7)
	seen, cursor := 0, ""
	for {
		got := call(t, s, "GET", "/v1/machines?limit=3&cursor="+cursor, "")
		seen += len(got.body["items"].([]any))
		next, more := got.body["next"].(string)
		if !more {
			break
		}
		cursor = next
	}
	if seen != 7 {
		t.Error(seen)
	}
}

func TestATunnelCarriesBytesBothWays(t *testing.T) {
	s, db := server(t, 2)
	if got := call(t, s, "POST", "/v1/clusters", "name: hello\nnodes: 1\n"); got.status != 202 {
		t.Fatal(got.text)
	}
	dial := func() (net.Conn, *bufio.Reader, *http.Response) {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "GET /v1/clusters/hello/tunnel HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: "+
			"Upgrade\r\nUpgrade: muster-tunnel\r\n\r\n", token)
		reader := bufio.NewReader(c)
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c, reader, response
	}
	early, _, refused := dial()
	_ = early.Close()
	if refused.StatusCode != 409 {
		t.Fatal("a cluster that is not ready was entered:", refused.Status)
	}
	claims, err := db.Claim(t.Context(), node.Kind, "test", time.Minute, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		if err := db.Update(t.Context(), func(tx *core.Tx) error {
			return tx.Settle(t.Context(), c, core.Settlement{Phase: core.Ready, Never: true})
		}); err != nil {
			t.Fatal(err)
		}
	}
	c, reader, response := dial()
	defer func() { _ = c.Close() }()
	if response.StatusCode != 101 {
		t.Fatal(response.Status)
	}
	_, _ = fmt.Fprintln(c, "over the tunnel")
	line, err := reader.ReadString('\n')
	if err != nil || line != "over the tunnel\n" {
		t.Fatal(line, err)
	}
}

// TestABodyFullOfMistakesIsToldTheFirstHundred: each that is told takes memory until the client has read it.
func TestABodyFullOfMistakesIsToldTheFirstHundred(t *testing.T) {
	s, _ := server(t, 1)
	for mistakes, status := range map[int]int{60_000: http.StatusUnprocessableEntity, 400_000: http.StatusRequestEntityTooLarge} {
		got := call(t, s, "POST", "/v1/clusters/cfd/tasks", `{"command":[`+strings.Repeat("0,", mistakes)+`0]}`)
		if got.status != status || len(got.text) > 64<<10 {
			t.Errorf("%d mistakes: %d, %d bytes: %.200s", mistakes, got.status, len(got.text), got.text)
		}
	}
}
