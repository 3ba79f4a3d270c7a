package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/core/telemetry"
)

// seen is a span as a receiver of OTLP/JSON reads it.
type seen struct {
	TraceID, SpanID, ParentSpanID, Name string
	StartTimeUnixNano, EndTimeUnixNano  string
	Kind                                int
	Links                               []struct{ TraceID, SpanID string }
	Status                              struct{ Code int }
	Attributes                          []struct{ Key string }
}

// read takes batches apart.
func read(t *testing.T, from io.Reader) map[string]seen {
	t.Helper()
	spans := map[string]seen{}
	for batches := json.NewDecoder(from); batches.More(); {
		var batch struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []seen }
			}
		}
		if err := batches.Decode(&batch); err != nil {
			t.Fatal(err)
		}
		for _, r := range batch.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					spans[span.Name] = span
				}
			}
		}
	}
	return spans
}

const request = "4bf92f3577b34da6a3ce929d0e0e4736"

// happen tells of a request with its admission, a step that it causes, a step that only looks, and one that fails.
func happen(t *telemetry.Telemetry) {
	began := time.Now()
	ctx := t.Trail(telemetry.WithRequest(context.Background(), request))
	t.Part(ctx, "admission")(nil)
	t.Request(ctx, telemetry.Request{
		ID: request, Operation: "create-cluster", Status: 202, Began: began, Identity: "admin", Cluster: "cfd",
		Caller: telemetry.ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
	})
	ctx = t.Trail(context.Background())
	t.Call(ctx, "local", "ensure")(nil)
	t.Step(ctx, telemetry.Step{Kind: "node", From: "booting", To: "booting", Result: telemetry.Waits, Began: began,
		Request: request, Fence: 7})
	ctx = t.Trail(context.Background())
	t.Call(ctx, "local", "observe")(nil)
	t.Step(ctx, telemetry.Step{Kind: "node", From: "ready", To: "ready", Result: telemetry.Waits, Began: began})
	t.Step(t.Trail(context.Background()), telemetry.Step{Kind: "machine", From: "inspecting", To: "inspecting",
		Result: telemetry.Retries, Began: began, Err: errors.New("no power")})
}

func TestARequestAndItsStepsAreOneTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces")
	tell := telemetry.New("v")
	if err := tell.OpenTraces(path, "c1", "v", func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	happen(tell)
	if err := tell.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is for others, too: %v %v", info.Mode(), err)
	}
	spans := read(t, file)
	root, admission, step, ensure, machine := spans["create-cluster"], spans["admission"], spans["node booting"],
		spans["local ensure"], spans["machine inspecting"]
	for _, s := range []seen{root, admission, step, ensure} {
		if s.TraceID != request || s.StartTimeUnixNano == "" || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("not in the request's trace: %+v", s)
		}
	}
	if root.ParentSpanID != "" || admission.ParentSpanID != root.SpanID || step.ParentSpanID != root.SpanID ||
		ensure.ParentSpanID != step.SpanID {
		t.Errorf("hang wrong: %+v %+v %+v %+v", root, admission, step, ensure)
	}
	const server = 2
	if root.Kind != server || len(root.Links) != 1 || root.Links[0].TraceID != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("the request does not name its caller: %+v", root)
	}
	if machine.TraceID == request || machine.TraceID == "" || machine.Status.Code != 2 {
		t.Errorf("a step of its own that failed: %+v", machine)
	}
	if len(spans) != 5 {
		t.Errorf("a look that found nothing is kept: %v", spans)
	}
}

func TestAReceiverGetsTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20secret, x-site=home")
	got := make(chan *http.Request, 5) // a span each at most
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		got <- r
	}))
	defer receiver.Close()
	tell := telemetry.New("v")
	if err := tell.OpenTraces(receiver.URL, "c1", "v", func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	happen(tell)
	if err := tell.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	for len(got) > 0 {
		r := <-got
		_, _ = body.ReadFrom(r.Body)
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" ||
			r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("X-Site") != "home" {
			t.Errorf("got %s %v", r.URL.Path, r.Header)
		}
	}
	if spans := read(t, &body); len(spans) != 5 {
		t.Errorf("got %v", spans)
	}
}

func TestAReceiverThatIsDownIsToldOfOnce(t *testing.T) {
	receiver := httptest.NewServer(http.NotFoundHandler())
	defer receiver.Close()
	told := 0
	tell := telemetry.New("v")
	if err := tell.OpenTraces(receiver.URL, "c1", "v", func(error) { told++ }); err != nil {
		t.Fatal(err)
	}
	for range 1200 { // more than two batches
		happen(tell)
	}
	if err := tell.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

func TestWhereTracesGoMustMakeSense(t *testing.T) {
	for _, to := range []string{"ftp://x", "http://", "http://user:secret@x", "/no/such/folder/traces"} {
		err := telemetry.New("").OpenTraces(to, "", "", nil)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", to, err)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "secret")
	if err := telemetry.New("").OpenTraces("http://x", "", "", nil); err == nil ||
		strings.Contains(strings.ReplaceAll(err.Error(), "OTEL_EXPORTER", ""), "secret") {
		t.Errorf("headers: %v", err)
	}
}
