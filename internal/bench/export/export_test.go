package export

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	apiv1 "muster/api/v1"
)

func someRun() Run {
	sizes := map[string]string{"bytes": "8"}
	of := map[string]string{"batches": "3", "why": `a "quoted" \ word` + "\n"}
	sample := func(v float64) []apiv1.BenchmarkSample {
		return []apiv1.BenchmarkSample{{Quantity: "latency", Labels: sizes, Node: "n1", Value: v, Unit: "µs", Better: "lower"}}
	}
	began := time.Unix(1_800_000_000, 0)
	return Run{
		Benchmark: apiv1.Benchmark{ID: "b1", Suite: "quick", Cluster: "hello", Phase: apiv1.Ended},
		Series: []apiv1.BenchmarkSeries{{Recipe: "ping-pong", Quantity: "latency", Labels: sizes, Parameters: of, Unit: "µs",
			Better: "lower", N: 2, Median: 1.5, Interval: &apiv1.Interval{Low: 1, High: 2},
			Rounds: []apiv1.RoundValue{{Round: 0, Value: 1}, {Round: 2, Value: 2}}}},
		History: []apiv1.BenchmarkRound{{Round: 0, Began: began, Nodes: map[string]string{"n1": "m1"}}},
		Samples: []apiv1.BenchmarkStep{
			{Round: 0, Step: 1, Recipe: "ping-pong", State: "ok", Parameters: of, Samples: sample(1)},
			{Round: 1, Step: 1, Recipe: "ping-pong", State: "ok", Broken: true, Samples: sample(9)},
			{Round: 2, Step: 1, Recipe: "ping-pong", State: "failed", Why: "exit status 3"},
		},
	}
}

func TestEverySampleIsALineOfCSV(t *testing.T) {
	text, err := CSV(someRun())
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil || len(lines) != 4 {
		t.Fatalf("%v: %s", err, text)
	}
	at := map[string]int{}
	for i, name := range lines[0] {
		at[name] = i
	}
	for i, want := range []map[string]string{
		{"value": "1", "counts": "true", "machine": "m1", "labels": "bytes=8", "began": "2027-01-15T08:00:00Z"},
		{"value": "9", "counts": "false", "round": "1"},
		{"value": "", "counts": "false", "state": "failed", "why": "exit status 3"},
	} {
		for name, value := range want {
			if got := lines[i+1][at[name]]; got != value {
				t.Errorf("line %d: %s is %q, not %q", i+1, name, got, value)
			}
		}
	}
}

// TestPrometheusReadsIt has Prometheus' own parser read it.
func TestPrometheusReadsIt(t *testing.T) {
	text, err := Prometheus(someRun())
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil || len(found) != 3 {
		t.Fatalf("%v: %s", err, text)
	}
	m := found["muster_bench_value"].GetMetric()[0]
	if m.GetGauge().GetValue() != 1.5 {
		t.Errorf("%v", m)
	}
	for _, l := range m.GetLabel() {
		if want := `batches=3 why=a "quoted" \ word\n`; l.GetName() == "parameters" && l.GetValue() != want {
			t.Errorf("%q, not %q", l.GetValue(), want)
		}
	}
}

func TestBenchstatHasALineForEachRound(t *testing.T) {
	text, err := Benchstat(someRun())
	want := "BenchmarkPing-pong/latency/batches=3/why=a_\"quoted\"_\\_word\\n/bytes=8 1 2 µs\n"
	if err != nil || !strings.Contains(string(text), "Unit µs better=lower\n") || !strings.Contains(string(text), want) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestReFrameHasATestCaseForEachStep, with no values of those that do not count.
func TestReFrameHasATestCaseForEachStep(t *testing.T) {
	text, err := ReFrame(someRun())
	if err != nil {
		t.Fatal(err)
	}
	var report reframeReport
	if err := json.Unmarshal(text, &report); err != nil || len(report.Runs) != 1 || len(report.Runs[0].All) != 3 {
		t.Fatalf("%v: %s", err, text)
	}
	run := report.Runs[0]
	if run.Cases != 3 || run.Failures != 1 || run.Aborted != 1 || report.Session["data_version"] != "4.2" {
		t.Errorf("%+v, %+v", run, report.Session)
	}
	first, broken, failed := run.All[0], run.All[1], run.All[2]
	if v := first.Values["hello::latency bytes=8"]; first.Result != "pass" || len(v) != 6 || v[0] != 1.0 || v[4] != "µs" ||
		first.FailPhase != nil || first.Nodes[0] != "n1" {
		t.Errorf("%+v", first)
	}
	if broken.Result != "abort" || len(broken.Values) > 0 || failed.Result != "fail" || *failed.FailPhase != "run" ||
		*failed.FailReason != "exit status 3" {
		t.Errorf("%+v, %+v", broken, failed)
	}
}
