package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"muster/internal/core/telemetry"
)

// told is a telemetry that everything has been told of.
func told() *telemetry.Telemetry {
	t := telemetry.New("1.2.3")
	ctx, began := context.Background(), time.Now()
	t.Step(ctx, telemetry.Step{Kind: "node", From: "booting", To: "joining", Result: telemetry.Advanced, Stayed: 3 * time.Second,
		Began: began})
	t.Step(ctx, telemetry.Step{Kind: "node", From: "joining", To: "failed", Result: telemetry.Late, Cause: "deadline",
		Stayed: time.Minute, Began: began})
	t.Step(ctx, telemetry.Step{Kind: "node", From: "ready", To: "ready", Result: telemetry.Waits, Began: began})
	t.Step(ctx, telemetry.Step{Kind: "node", From: "ready", To: "failed", Result: telemetry.Fenced, Cause: "stopped",
		Began: began})
	t.Request(ctx, telemetry.Request{Operation: "list-clusters", Status: 200, Began: began})
	t.Request(ctx, telemetry.Request{Operation: "list-events", Status: 200, Began: began, Stream: true})
	t.Stream("list-events")()
	t.Call(ctx, "local", "ensure")(nil)
	t.Call(ctx, "local", "ensure")(errors.New("no"))
	t.Call(ctx, "local", "ensure")(context.Canceled)
	t.Part(ctx, "admission")(nil)
	t.Transaction("write", began, 7, 2, true)
	t.Agent("report", 200, began)
	t.BootStep("metal", "kernel", time.Second)
	t.Lease("lab", "granted")
	t.Sent("lab", "tftp", 4096, true)
	t.Sent("lab", "http", 10, false)
	return t
}

func TestMetricsAreAsPrometheusWantsThem(t *testing.T) {
	problems, err := testutil.GatherAndLint(told().Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "muster_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestWhatIsToldIsCounted(t *testing.T) {
	answer := httptest.NewRecorder()
	told().Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`muster_build_info{version="1.2.3"} 1`,
		`muster_phase_seconds_count{kind="node",phase="booting"} 1`,
		`muster_phase_seconds_sum{kind="node",phase="joining"} 60`,
		`muster_failures_total{cause="deadline",kind="node",phase="joining"} 1`,
		`muster_engine_steps_total{kind="node",phase="ready",result="waits"} 1`,
		`muster_engine_steps_total{kind="node",phase="ready",result="fenced"} 1`,
		`muster_api_requests_total{operation="list-events",status="200"} 1`,
		`muster_api_request_seconds_count{operation="list-clusters"} 1`,
		`muster_api_streams{operation="list-events"} 0`,
		`muster_driver_call_seconds_count{call="ensure",driver="local"} 3`,
		`muster_driver_failures_total{call="ensure",driver="local"} 1`,
		`muster_store_retries_total{mode="write"} 2`,
		`muster_store_rows_total{mode="write"} 7`,
		`muster_agent_requests_total{call="report",status="200"} 1`,
		`muster_boot_step_seconds_sum{step="kernel",substrate="metal"} 1`,
		`muster_netboot_leases_total{network="lab",result="granted"} 1`,
		`muster_netboot_sent_bytes_total{network="lab",protocol="http"} 10`,
		`muster_netboot_transfers_total{network="lab",protocol="http",result="broken"} 1`,
	} {
		if !strings.Contains(answer.Body.String(), line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range []string{ // a commit that did not stand moved nothing; a watch's length is no latency
		`muster_phase_seconds_count{kind="node",phase="ready"}`, `cause="stopped"`,
		`muster_api_request_seconds_count{operation="list-events"}`,
	} {
		if strings.Contains(answer.Body.String(), line) {
			t.Errorf("counted: %s", line)
		}
	}
}

func TestNobodyNeedsTelemetry(t *testing.T) {
	var none *telemetry.Telemetry
	ctx := context.Background()
	none.Step(ctx, telemetry.Step{})
	none.Request(ctx, telemetry.Request{})
	none.Stream("x")()
	none.Call(ctx, "x", "y")(nil)
	none.Part(ctx, "x")(nil)
	none.Transaction("read", time.Now(), 0, 0, false)
	none.Agent("x", 200, time.Now())
	none.BootStep("x", "y", 0)
	none.Lease("x", "y")
	none.Sent("x", "y", 1, true)
	none.Register(nil)
	if none.Tracing() || none.Trail(ctx) != ctx || none.Close(ctx) != nil {
		t.Error("nothing must do nothing")
	}
}

func TestLinesCarryTheirRequest(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(telemetry.Lines(slog.NewTextHandler(&text, nil))).With("kind", "node")
	id := telemetry.NewRequest()
	log.InfoContext(telemetry.WithRequest(context.Background(), id), "one")
	log.Info("two")
	lines := strings.Split(text.String(), "\n")
	if !strings.Contains(lines[0], "request="+id) || !strings.Contains(lines[0], "kind=node") ||
		strings.Contains(lines[1], "request=") {
		t.Errorf("got %q", lines)
	}
}

// BenchmarkStep is what a step of the engine pays for being told of, without traces and with them.
func BenchmarkStep(b *testing.B) {
	step := telemetry.Step{Kind: "node", From: "booting", To: "joining", Result: telemetry.Advanced, Stayed: time.Second,
		Began: time.Now(), Cluster: "cfd", Node: "n1", Op: "c1/1"}
	run := func(b *testing.B, t *telemetry.Telemetry) {
		for b.Loop() {
			ctx := t.Trail(context.Background())
			t.Call(ctx, "local", "ensure")(nil)
			t.Step(ctx, step)
		}
	}
	b.Run("nobody", func(b *testing.B) { run(b, nil) })
	b.Run("metrics", func(b *testing.B) { run(b, telemetry.New("")) })
	b.Run("traces", func(b *testing.B) {
		t := telemetry.New("")
		if err := t.OpenTraces(b.TempDir()+"/traces", "c", "v", func(err error) { b.Error(err) }); err != nil {
			b.Fatal(err)
		}
		run(b, t)
		if err := t.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
}
