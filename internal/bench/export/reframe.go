package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/kit/lists"
	"muster/internal/kit/printable"
)

// reframeVersion is that of the data, of ReFrame 4.10 (reframe/schemas/runreport.json).
const reframeVersion = "4.2"

// reframeReport is a session of ReFrame: one run, with a test case for each step of each round.
type reframeReport struct {
	Session  map[string]any `json:"session_info"`
	Restored []reframeCase  `json:"restored_cases"`
	Runs     []reframeRun   `json:"runs"`
}

type reframeRun struct {
	Cases    int           `json:"num_cases"`
	Failures int           `json:"num_failures"`
	Aborted  int           `json:"num_aborted"`
	Skipped  int           `json:"num_skipped"`
	Index    int           `json:"run_index"`
	All      []reframeCase `json:"testcases"`
}

type reframeCase struct {
	UUID       string            `json:"uuid"`
	Name       string            `json:"name"`
	UniqueName string            `json:"unique_name"`
	Parameters map[string]string `json:"parameters,omitempty"`
	File       string            `json:"filename"`
	System     string            `json:"system"`
	Partition  string            `json:"partition"`
	Environ    string            `json:"environ"`
	Scheduler  string            `json:"scheduler"`
	Nodes      []string          `json:"job_nodelist"`
	Result     string            `json:"result"`
	FailPhase  *string           `json:"fail_phase"`
	FailReason *string           `json:"fail_reason"`
	Ended      float64           `json:"job_completion_time_unix"`
	Run        float64           `json:"time_run"`
	Total      float64           `json:"time_total"`
	Values     map[string][]any  `json:"perfvalues"` // value, reference, lower and upper threshold, unit, result
}

// reframeStates are what a step's states are there, and the phase in which one that is not ok has failed.
func reframeStates() map[string][2]string {
	return map[string][2]string{"ok": {"pass"}, "skipped": {"skip"}, "invalid": {"fail", "sanity"}, "failed": {"fail", "run"},
		"timed-out": {"fail", "run"}, "lost": {"abort", "run"}, "not-run": {"abort", "setup"}}
}

// ReFrame is a report of runs as ReFrame writes it, which its --performance-compare and storage read. The cluster is its system,
// the queue its partition, and the suite its environment. Steps of rounds that do not count are aborted.
func ReFrame(r Run) ([]byte, error) {
	rounds := lists.By(r.History, func(o apiv1.BenchmarkRound) int { return o.Round })
	began, ended := r.CreatedAt, cmp.Or(timeOf(r.EndedAt), r.CreatedAt)
	run := reframeRun{All: []reframeCase{}}
	for _, s := range r.Samples {
		c := reframeCaseOf(r, s, rounds[s.Round])
		run.Cases++
		switch c.Result {
		case "fail":
			run.Failures++
		case "abort":
			run.Aborted++
		case "skip":
			run.Skipped++
		}
		run.All = append(run.All, c)
	}
	report := reframeReport{Restored: []reframeCase{}, Runs: []reframeRun{run}, Session: map[string]any{
		"data_version": reframeVersion, "version": "muster", "hostname": printable.Line(r.Cluster),
		"user": printable.Line(r.Account),
		"uuid": r.ID, "time_start": began.Format(time.RFC3339), "time_start_unix": seconds(began),
		"time_end": ended.Format(time.RFC3339), "time_end_unix": seconds(ended), "time_elapsed": ended.Sub(began).Seconds(),
		"num_cases": run.Cases, "num_failures": run.Failures, "num_aborted": run.Aborted, "num_skipped": run.Skipped,
	}}
	text, err := json.MarshalIndent(report, "", "  ")
	return append(text, '\n'), err
}

func reframeCaseOf(r Run, s apiv1.BenchmarkStep, o apiv1.BenchmarkRound) reframeCase {
	name := strings.TrimSuffix(s.Recipe+" %"+joined(s.Parameters, " %"), " %")
	c := reframeCase{UUID: fmt.Sprintf("%s:%d:%d", r.ID, s.Round, s.Step), Name: name, UniqueName: word(name),
		Parameters: s.Parameters, File: s.Recipe + ".yaml", System: r.Cluster, Partition: r.Queue, Environ: r.Suite,
		Scheduler: "muster", Nodes: slices.Sorted(maps.Keys(o.Nodes)), Ended: seconds(o.Ended), Run: s.Seconds, Total: s.Seconds,
		Values: map[string][]any{}}
	if c.Nodes == nil {
		c.Nodes = []string{}
	}
	state := reframeStates()[s.State]
	if c.Result = state[0]; s.Broken {
		c.Result, state[1] = "abort", "run"
	}
	if state[1] != "" {
		why := cmp.Or(s.Why, o.Disturbed, o.Why)
		c.FailPhase, c.FailReason = &state[1], &why
		return c
	}
	by := map[string][]apiv1.BenchmarkSample{}
	for _, v := range s.Samples {
		name := strings.ReplaceAll(v.Quantity+Labelled(v.Labels), ":", "_") // what is before a colon is a system's
		by[name] = append(by[name], v)
	}
	for name, all := range by {
		slices.SortFunc(all, func(a, b apiv1.BenchmarkSample) int { return cmp.Compare(a.Value, b.Value) })
		median := all[len(all)/2].Value/2 + all[(len(all)-1)/2].Value/2
		c.Values[c.System+":"+c.Partition+":"+name] = []any{median, 0, nil, nil, all[0].Unit, "pass"}
	}
	return c
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
