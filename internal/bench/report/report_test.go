package report

import (
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/bench/papers"
	"muster/internal/kit/words"
)

// series is a quantity with seven rounds around a value.
func series(quantity, bytes string, around float64) apiv1.BenchmarkSeries {
	s := apiv1.BenchmarkSeries{Recipe: "messages", Quantity: quantity, Parameters: map[string]string{"batches": "3"}, Unit: "µs",
		Better: "lower", N: 7, Median: around, Min: around * 0.9, Max: around * 1.1,
		Interval: &apiv1.Interval{Low: around * 0.95, High: around * 1.05},
		Nodes:    []apiv1.NodeValue{{Node: "n2", Value: around * 1.1}, {Node: "n1", Value: around}}}
	if bytes != "" {
		s.Labels = map[string]string{"bytes": bytes}
	}
	for i := range 7 {
		s.Rounds = append(s.Rounds, apiv1.RoundValue{Round: i, Value: around * (0.9 + float64(i)/30), Samples: 3})
	}
	return s
}

const evil = "<script>alert(1)</script>\x1b]0;x\a"

func some() Report {
	run := func(id, peer string, by float64) export.Run {
		return export.Run{
			Benchmark: apiv1.Benchmark{ID: id, Peer: peer, Suite: "network", Cluster: "c" + id, Rounds: 8, Ended: 8,
				Broken: 1, Phase: apiv1.Ended, Outcome: apiv1.BenchmarkIncomplete, Reason: evil,
				Steps:    map[string]int{"ok": 13, "failed": 1},
				Cautions: []string{"n1 is emulated, " + evil},
				Problems: []apiv1.BenchmarkStep{{Round: 3, Recipe: "tcp", State: "failed", Why: evil}}},
			Series: []apiv1.BenchmarkSeries{series("latency", "8", by), series("latency", "4096", 3*by),
				series("latency", "1048576", 90*by), series("barrier", "", 5*by)},
			History: []apiv1.BenchmarkRound{
				{Round: 0, State: "ok", Counts: true,
					Before: map[string]map[string]string{"n1": {"kernel": "6.1 of " + id, "cpu": evil, "load": "1"}},
					After:  map[string]map[string]string{"n1": {"load": "2"}}},
				{Round: 1, State: "lost", Why: evil},
			},
			Samples: []apiv1.BenchmarkStep{{Round: 0, Recipe: "tcp", State: "ok",
				Samples: []apiv1.BenchmarkSample{{Quantity: "latency", Value: 1.25, Unit: "µs", Better: "lower"}}}},
		}
	}
	c := apiv1.BenchmarkComparison{A: apiv1.Benchmark{ID: "1", Cluster: "c1"}, B: apiv1.Benchmark{ID: "2", Cluster: evil,
		Cautions: []string{"n2 is emulated"}},
		Paired: true, Margin: 0.02, Failures: apiv1.BenchmarkFailures{A: 1, OfA: 14, OfB: 14, P: 1},
		Quantities: []apiv1.ComparedQuantity{
			{Recipe: "messages", Quantity: "latency", Labels: map[string]string{"bytes": "8"}, A: 1, B: 1.1, N: 7, Ratio: 1.1,
				Unit: "µs", Interval: &apiv1.Interval{Low: 1.08, High: 1.13}, Verdict: "differs", Better: "a"},
			{Recipe: "messages", Quantity: "barrier", A: 5, B: 5, N: 7, Ratio: 1, Verdict: "equal",
				Interval: &apiv1.Interval{Low: 0.99, High: 1.01}},
			{Recipe: "tcp", Quantity: "tcp", Verdict: "not comparable", Why: evil},
		}}
	known := papers.Cell{Known: true, Value: 2, Low: 1, High: 3}
	p := papers.Page{Paper: papers.Paper{Title: "A paper", By: "Somebody", About: "Then"}, Runs: []string{"1 on " + evil},
		Published: 3, Beside: 2,
		Judged: []papers.Judged{{Claim: papers.Claim{Says: "It is fast", Least: 0.9}, Verdict: papers.Seen, Ratio: 1.5, Low: 1.4,
			High: 1.6},
			{Claim: papers.Claim{Says: "It is not", Most: 0.9}, Verdict: papers.Undecided, Why: evil}},
		Shown: []papers.Shown{
			{Panel: papers.Panel{Figure: "table 1", Shows: "speed", Unit: "GFLOP/s",
				Each: papers.Parts{{Name: "native"}, {Name: "virtual"}},
				Rows: []papers.Row{{What: "then", Is: []papers.Span{{Low: 40, High: 40}, {Low: 1, High: 2}}}}},
				Own: []papers.Own{{What: evil, Cells: []papers.Cell{known, {}}}}},
			{Panel: papers.Panel{Figure: "figure 2", Shows: "speed", Unit: "s", X: "nodes"}, Lines: []papers.Line{
				{Name: "then", Published: true, Points: []papers.Point{{X: 1, Value: 0}, {X: 2, Value: 0}}},
				{Name: evil, Points: []papers.Point{{X: 1, Value: 2, Low: 1, High: 3}}}}},
			{Panel: papers.Panel{Figure: "figure 3", Shows: "latency", X: "bytes", Each: papers.Parts{{}}}, Why: evil},
		}}
	return Report{Runs: []export.Run{run("1", "2", 1), run("2", "1", 1.1)}, Comparisons: []apiv1.BenchmarkComparison{c},
		Papers: []papers.Page{p},
		Made:   time.Unix(1_800_000_000, 0), Version: "1.2"}
}

// TestRulesAreKeptOrItIsSaid of the twelve that reports of benchmarks should keep: by what the report has.
func TestRulesAreKeptOrItIsSaid(t *testing.T) {
	few := func(r *Report) {
		for i := range r.Runs {
			for j := range r.Runs[i].Series {
				r.Runs[i].Series[j].Interval = nil
			}
		}
	}
	for what, c := range map[string]struct {
		change func(*Report)
		says   map[int]string
	}{
		"as it is": {func(*Report) {}, map[int]string{0: "kept: ratios", 1: "2 of 16 rounds do not count", 4: "kept: each",
			6: "kept: see", 8: "kept as far as nodes say them: ", 10: "kept beside papers"}},
		"few values": {few, map[int]string{4: "not kept: no quantity"}},
		"one of few": {func(r *Report) { r.Runs[0].Series[1].Interval = nil }, map[int]string{4: "in part: 1 of 8 quantities"}},
		"not in turns": {func(r *Report) { r.Comparisons[0].Paired = false },
			map[int]string{6: "in part: the sides of 1 of 1 comparison were not"}},
		"alone": {func(r *Report) { r.Comparisons, r.Papers = nil, nil }, map[int]string{0: "nothing is compared",
			6: "nothing is compared", 10: "not kept: none is known"}},
		"nothing": {func(r *Report) { *r = Report{} }, map[int]string{4: "nothing was measured", 8: "not kept: nodes"}},
	} {
		r := some()
		c.change(&r)
		v, err := r.view()
		if err != nil || len(v.Rules) != 12 {
			t.Fatal(what, err, v.Rules)
		}
		for n, says := range c.says {
			if !strings.Contains(v.Rules[n][1], says) {
				t.Errorf("%s: rule %d: %q does not say %q", what, n+1, v.Rules[n][1], says)
			}
		}
	}
}

// TestAPageNeedsNothingElse: it has all in it, asks for nothing, and holds nothing of others' that a browser would run.
func TestAPageNeedsNothingElse(t *testing.T) {
	text, err := some().HTML()
	if err != nil {
		t.Fatal(err)
	}
	html := string(text)
	for _, part := range []string{"network on c1, c2", "13 of 14 steps are ok (1 failed), in 7 rounds that count.",
		"Of 3 quantities these differ (1): latency bytes=8 (B is 1.1 of A, 1.08 – 1.13; A is better); " +
			"these are equal within 2 % (1): barrier; these cannot be compared (1): tcp.", "1 of 14 steps on A", "6.1 of 1", "c2:n1", "n2 1.1", "Rounds that do not count", "n1 is emulated", "B: n2 is emulated.",
		`<polyline class="b"`, "2 claims: 1 seen here too, 0 not seen, 1 not decided. Measured values stand beside 2 of the 3 numbers",
		"at least 0.9", `<line class="c0 theirs"`, `<circle class="c1"`, "Nothing is beside it"} {
		if !strings.Contains(html, part) {
			t.Errorf("there is no %s", part)
		}
	}
	for _, part := range []string{"<script", "http://", "https://", "src=", "@import", "url("} {
		if strings.Contains(html, part) {
			t.Errorf("there is %s", part)
		}
	}
	data := regexp.MustCompile(`href="data:text/csv;charset=utf-8;base64,([^"]*)"`).FindAllStringSubmatch(html, -1)
	if len(data) != 2 {
		t.Fatalf("%d runs have their data", len(data))
	}
	csv, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(data[0][1], "&#43;", "+"))
	if err != nil || !strings.Contains(string(csv), ",1.25,µs,lower,") {
		t.Errorf("%v: %s", err, csv)
	}
	for _, figure := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(html, -1) {
		d := xml.NewDecoder(strings.NewReader(figure))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, figure)
			}
		}
		if strings.Contains(figure, "NaN") || strings.Contains(figure, "Inf") || !strings.Contains(figure, `aria-label="`) {
			t.Errorf("%s", figure)
		}
	}
}

func TestMarkdownHasTheTables(t *testing.T) {
	text, err := some().Markdown()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"# network on c1, c2", "| messages | latency bytes=8 | 1 | 1.1 | µs | 1.1 | 1.08 – 1.13 | 7 | differs | A |",
		"## Environment", "| then | 40 | 1 – 2 |", "| at most 0.9 |", "| 3 | tcp | failed | &lt;script>",
		"| 1 | lost | &lt;script>"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("there is no %s in\n%s", part, text)
		}
	}
	if strings.ContainsAny(string(text), "\x1b\a") || strings.Contains(string(text), "<script") {
		t.Error("what others wrote is raw")
	}
}

func TestFiguresOfNothingAreNone(t *testing.T) {
	if strip("x", nil, 0, 0, 0) != "" || curve("x", "s", [][]papers.Point{{{X: 1, Value: 1, Low: 1, High: 1}}}) != "" ||
		curve("x", "s", [][]papers.Point{{{X: 0, Value: 1, Low: 1, High: 1}, {X: 8, Value: 1, Low: 1, High: 1}}}) != "" {
		t.Error("there is a figure")
	}
	for _, v := range []float64{0, -5, 7, 1e-300, math.MaxFloat64 / 4} {
		if text := string(strip("x", []float64{v, v}, v, v, v)); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%g: %s", v, text)
		}
	}
}

func TestMarksOfALinearAxisAreRound(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0, 10, "[0 2 4 6 8 10]"}, {0, 3.1, "[0 0.5 1 1.5 2 2.5 3]"}, {0.94, 1.06, "[0.94 0.96 0.98 1 1.02 1.04 1.06]"},
		{-5, 470, "[0 100 200 300 400]"},
	} {
		var got []string
		for _, v := range (axis{low: c.low, high: c.high}).marks() {
			got = append(got, words.Figure(v))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%g to %g: %v, not %s", c.low, c.high, got, c.want)
		}
	}
}

func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		a    axis
		want []float64
	}{
		{axis{log: true, low: 1, high: 120}, []float64{1, 2, 5, 10, 20, 50, 100}},
		{axis{log: true, low: 3, high: 1e5}, []float64{10, 100, 1000, 1e4, 1e5}},
	} {
		got := c.a.ticks()
		if len(got) != len(c.want) {
			t.Errorf("%+v: %v, not %v", c.a, got, c.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9*c.want[len(c.want)-1] {
				t.Errorf("%+v: %v, not %v", c.a, got, c.want)
			}
		}
	}
}
