// Package export writes what a run has measured in the formats of other programs.
//
// What enters: a run as the API shows it. What leaves: text. It is pure.
package export

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/kit/lists"
	"muster/internal/kit/printable"
)

// Run is a run with all that it has measured.
type Run struct {
	apiv1.Benchmark
	Series  []apiv1.BenchmarkSeries `json:"series"`
	History []apiv1.BenchmarkRound  `json:"history"`
	Samples []apiv1.BenchmarkStep   `json:"samples,omitempty"` // the steps of all rounds
}

// Formats are those that there are beside JSON, by their names.
func Formats() map[string]func(Run) ([]byte, error) {
	return map[string]func(Run) ([]byte, error){"csv": CSV, "prometheus": Prometheus, "benchstat": Benchstat, "reframe": ReFrame}
}

// CSV has a line for each sample, whether or not it counts, and one without a value for each step that has none (RFC 4180).
func CSV(r Run) ([]byte, error) {
	rounds := lists.By(r.History, func(o apiv1.BenchmarkRound) int { return o.Round })
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"run", "suite", "cluster", "round", "began", "step", "recipe", "parameters", "state", "counts",
		"quantity", "labels", "node", "machine", "value", "unit", "better", "why"})
	for _, s := range r.Samples {
		o := rounds[s.Round]
		of := []string{r.ID, r.Suite, r.Cluster, strconv.Itoa(s.Round), o.Began.UTC().Format(time.RFC3339), strconv.Itoa(s.Step),
			s.Recipe, joined(s.Parameters, " "), s.State, strconv.FormatBool(counts(s))}
		if len(s.Samples) == 0 {
			_ = w.Write(plain(append(of, "", "", "", "", "", "", "", s.Why)))
		}
		for _, v := range s.Samples {
			_ = w.Write(plain(append(slices.Clone(of), v.Quantity, joined(v.Labels, " "), v.Node, o.Nodes[v.Node],
				number(v.Value), v.Unit, v.Better, s.Why)))
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// plain has nothing that does something to a terminal.
func plain(cells []string) []string {
	for i := range cells {
		cells[i] = printable.Line(cells[i])
	}
	return cells
}

func counts(s apiv1.BenchmarkStep) bool { return s.State == "ok" && !s.Broken }

// Prometheus is the text format of a node exporter's textfile collector, with medians and the bounds of their intervals
// (https://prometheus.io/docs/instrumenting/exposition_formats).
func Prometheus(r Run) ([]byte, error) {
	var b bytes.Buffer
	for _, metric := range []struct {
		name, help string
		value      func(apiv1.BenchmarkSeries) (float64, bool)
	}{
		{"muster_bench_value", "Median of what a benchmark has measured in its rounds.",
			func(s apiv1.BenchmarkSeries) (float64, bool) { return s.Median, true }},
		{"muster_bench_value_low", "Lower bound of the median, with 95 % confidence.",
			func(s apiv1.BenchmarkSeries) (float64, bool) {
				if s.Interval == nil {
					return 0, false
				}
				return s.Interval.Low, true
			}},
		{"muster_bench_value_high", "Upper bound of the median, with 95 % confidence.",
			func(s apiv1.BenchmarkSeries) (float64, bool) {
				if s.Interval == nil {
					return 0, false
				}
				return s.Interval.High, true
			}},
	} {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", metric.name, metric.help, metric.name)
		for _, s := range r.Series {
			if v, has := metric.value(s); has {
				quantity := strings.TrimSpace(s.Quantity + " " + joined(s.Labels, " "))
				fmt.Fprintf(&b, "%s{cluster=%q,suite=%q,recipe=%q,quantity=%q,parameters=%q,unit=%q} %s\n", metric.name,
					label(r.Cluster), label(r.Suite), label(s.Recipe), label(quantity), label(joined(s.Parameters, " ")),
					label(s.Unit), number(v))
			}
		}
	}
	return b.Bytes(), nil
}

// label has nothing that Go quotes otherwise than Prometheus, which knows backslashes, quotes and line breaks only.
func label(text string) string { return printable.Line(strings.ToValidUTF8(text, "?")) }

// Benchstat is the format of Go's benchmarks, a line for each round that counts: benchstat compares such files
// (https://go.dev/design/14313-benchmark-format).
func Benchstat(r Run) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "run: %s\nsuite: %s\ncluster: %s\n", label(r.ID), label(r.Suite), label(r.Cluster))
	units := map[string]string{}
	for _, s := range r.Series {
		units[word(s.Unit)] = word(s.Better)
	}
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		fmt.Fprintf(&b, "Unit %s better=%s\n", unit, units[unit])
	}
	for _, s := range r.Series {
		parts := []string{"Benchmark" + upper(word(s.Recipe)), word(s.Quantity)}
		for _, of := range []map[string]string{s.Parameters, s.Labels} {
			if text := joined(of, "/"); text != "" {
				parts = append(parts, word(text))
			}
		}
		for _, v := range s.Rounds {
			fmt.Fprintf(&b, "%s 1 %s %s\n", strings.Join(parts, "/"), number(v.Value), word(s.Unit))
		}
	}
	return b.Bytes(), nil
}

// word has no spaces.
func word(text string) string { return strings.Join(strings.Fields(label(text)), "_") }

func upper(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// joined are names with values in the order of the names.
func joined(of map[string]string, by string) string {
	all := lists.Map(slices.Sorted(maps.Keys(of)), func(key string) string { return key + "=" + of[key] })
	return strings.Join(all, by)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
