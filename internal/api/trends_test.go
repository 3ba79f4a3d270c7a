package api_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/bench/recipe"
	"muster/internal/core"
	"muster/internal/kinds/bench"
)

// changed has a run measure something, and a change of it be told.
func changed(ctx context.Context, tx *core.Tx, run string, c bench.Change) error {
	what := bench.What{Recipe: "some", Quantity: "speed", Unit: "GB/s", Better: recipe.Higher, Class: "local", Cores: 4}
	r, err := bench.Get(ctx, tx, run)
	if err != nil {
		return err
	}
	m := bench.Measured{What: what, Value: 80, Machines: map[string]float64{"m1": 80}}
	c.What, c.Run, c.At, c.Was, c.Became = what, run, time.Unix(5, 0), 100, 80
	if c.Machine == "" && c.Cluster != "" {
		if err := bench.SavePoints(ctx, tx, r, c.At, []bench.Measured{m}); err != nil {
			return err
		}
	}
	return bench.AddChange(ctx, tx, c)
}

// TestWhatHasChangedIsShownAndAccepted by those whose it is.
func TestWhatHasChangedIsShownAndAccepted(t *testing.T) {
	ask, db := withNode(t)
	update(t, db, func(ctx context.Context, tx *core.Tx) error {
		of := bench.Change{ID: "h-m1", Scope: bench.Scope{Machine: "m1"}, Causes: []string{"moved"}}
		if err := changed(ctx, tx, "b-aero", of); err != nil {
			return err
		}
		return changed(ctx, tx, "b-aero", bench.Change{ID: "h-class"})
	})
	seen := func(who string) (ids string) {
		for _, c := range read[apiv1.List[apiv1.BenchmarkChange]](t, ask("GET", "/v1/changes", "", who)).Items {
			ids += c.ID + " "
			if c.Text != "speed of some is 20 % lower" || !c.Worse || (c.Cluster != "") != (c.ID == "h-aero" || c.ID == "h-bio") {
				t.Errorf("%+v", c)
			}
		}
		return ids
	}
	for who, want := range map[string]string{"nobody": "", "viewer": "h-aero", "operator": "h-aero h-bio h-class h-m1"} {
		got := strings.Fields(seen(who))
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%s sees %v", who, got)
		}
	}
	for path, want := range map[string]int{"/v1/clusters/aero%2Fcfd/trends": 1, "/v1/clusters/aero%2Fcfd/trends?machine=m1": 1,
		"/v1/clusters/aero%2Fcfd/trends?machine=m2": 0, "/v1/clusters/aero%2Fcfd/trends?quantity=other": 0,
		"/v1/clusters/aero%2Fcfd/trends?runs=b-bio,b-aero": 1, "/v1/clusters/aero%2Fcfd/trends?runs=b-bio": 0} {
		all := read[apiv1.List[apiv1.BenchmarkTrend]](t, ask("GET", path, "", "viewer")).Items
		told := 1
		if strings.Contains(path, "machine") { // which may tell of another project's runs
			told = 0
		}
		if len(all) != want || want > 0 && (len(all[0].Points) != 1 || all[0].Points[0].Value != 80 ||
			len(all[0].Changes) != told) {
			t.Errorf("%s: %+v", path, all)
		}
	}
	for path, want := range map[string]int{"/v1/trends?class=local": 2, "/v1/trends?machine=m1": 2} { // of both projects
		all := read[apiv1.List[apiv1.BenchmarkTrend]](t, ask("GET", path, "", "operator")).Items
		if len(all) != 1 || len(all[0].Points) != want || len(all[0].Changes) != 1 {
			t.Errorf("%s: %+v", path, all)
		}
	}
	if got := ask("GET", "/v1/trends", "", "operator"); got.status != 422 {
		t.Error(got)
	}
	const ofMachine, ofCluster = "/v1/changes/h-m1/accept", "/v1/changes/h-aero/accept"
	if got := ask("POST", ofMachine, "", "member"); got.status != 404 {
		t.Error(got)
	}
	for _, c := range []struct{ path, who, by string }{{ofMachine, "operator", "operator"}, {ofCluster, "member", "member"},
		{ofCluster, "operator", "member"}} { // once is enough
		if got := read[apiv1.BenchmarkChange](t, ask("POST", c.path, "", c.who)); got.Accepted != c.by {
			t.Errorf("%+v", got)
		}
	}
}

// TestAWatchIsTakenAndReplaced by another of its suite, and ended; it does not take the place of a run that is asked for once.
func TestAWatchIsTakenAndReplaced(t *testing.T) {
	ask, _ := withNode(t)
	const path = "/v1/clusters/aero%2Fcfd/benchmarks"
	first := read[apiv1.Benchmark](t, ask("POST", path, `{"suite": "stream", "every": "1d"}`, "member"))
	if first.Every != "1d" || first.BeginsAt == nil || time.Since(*first.BeginsAt) > time.Minute {
		t.Errorf("%+v", first)
	}
	for body, want := range map[string]string{`{"every": "1m"}`: "every: ", `{"every": "often"}`: "every: ",
		`{"every": "1d", "compare_with": "cfd"}`: "is not repeated"} {
		if got := ask("POST", path, body, "member"); got.status != 422 || !strings.Contains(got.text, want) {
			t.Errorf("%s: %v", body, got)
		}
	}
	second := read[apiv1.Benchmark](t, ask("POST", path, `{"suite": "stream", "every": "12h"}`, "member"))
	if b := read[apiv1.Benchmark](t, ask("GET", "/v1/benchmarks/"+first.ID, "", "viewer")); !b.Cancel || b.Every != "" {
		t.Errorf("%+v", b)
	}
	for range 2 { // with that of tenants, and the one that is being cancelled: four
		read[apiv1.Benchmark](t, ask("POST", path, `{"suite": "stream"}`, "member"))
	}
	read[apiv1.Benchmark](t, ask("POST", path, `{"suite": "dgemm", "every": "1d"}`, "member"))
	if b := read[apiv1.Benchmark](t, ask("DELETE", "/v1/benchmarks/"+second.ID, "", "owner")); !b.Cancel || b.Every != "" {
		t.Errorf("%+v", b)
	}
}
