package papers

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/bench/export"
	"muster/internal/bench/library"
	"muster/internal/bench/recipe"
)

func all(t *testing.T) map[string]Paper {
	t.Helper()
	list, err := All()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Paper{}
	for _, p := range list {
		found[p.Suite] = p
	}
	return found
}

// TestWhatIsBesideAPaperIsMeasured: each choice names something that the paper's suite measures.
func TestWhatIsBesideAPaperIsMeasured(t *testing.T) {
	l, err := recipe.Load(library.Files())
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range all(t) {
		s := l.Suites[name]
		if s == nil || p.Title == "" || p.By == "" || p.About == "" {
			t.Fatalf("%s: %+v", name, p)
		}
		steps, err := l.Steps(s, recipe.Nodes{Nodes: 3, Cores: 2, Memory: 4 << 30})
		if err != nil {
			t.Fatal(err)
		}
		measures := func(text string, more ...string) {
			c, err := parse(text)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			keys := slices.DeleteFunc(append(more, c.best), func(key string) bool { return key == "" })
			for _, w := range c.where {
				keys = append(keys, w[0])
			}
			for _, key := range keys {
				if key != "nodes" && key != "cores" && !slices.ContainsFunc(steps, func(s recipe.Step) bool {
					_, parameter := s.Parameters[key]
					lines, reads := reading(s, c)
					return reads && (parameter || strings.Contains(lines, "(?P<"+key+">"))
				}) {
					t.Errorf("%s: %s has no %s", name, text, key)
				}
			}
			if !slices.ContainsFunc(steps, func(s recipe.Step) bool { _, reads := reading(s, c); return reads }) {
				t.Errorf("%s: nothing measures %s", name, text)
			}
		}
		for _, panel := range p.Panels {
			for _, part := range panel.Each {
				measures(strings.TrimSpace(panel.Of+" "+part.Of), panel.X, panel.Lines)
			}
			for _, row := range panel.Rows {
				if len(row.Is) > 0 && len(row.Is) != len(panel.Each) {
					t.Errorf("%s, %s: %s has %d values for %d parts", name, panel.Figure, row.What, len(row.Is), len(panel.Each))
				}
			}
		}
		for _, c := range p.Claims {
			if measures(c.Of); c.Beside != native {
				measures(c.Beside)
			}
			if c.Least == 0 && c.Most == 0 || c.Most > 0 && c.Most < c.Least {
				t.Errorf("%s: nothing is wanted of %s", name, c.Says)
			}
		}
	}
}

// reading is how a step reads what is chosen; false: it does not.
func reading(s recipe.Step, c choice) (lines string, reads bool) {
	for _, r := range s.Recipe.Read {
		if s.Recipe.Name == c.recipe && r.Quantity == c.quantity {
			return r.Lines, true
		}
	}
	return "", false
}

// run is a run of two nodes with series of seven rounds around a value, by "recipe quantity key=value…".
func run(id, suite, platform string, series map[string]float64) export.Run {
	r := export.Run{Benchmark: apiv1.Benchmark{ID: id, Cluster: "c" + id, Suite: suite,
		On: apiv1.BenchmarkNodes{Nodes: 2, Cores: 4}, CreatedAt: time.Unix(int64(id[0]), 0), Ended: 7,
		Problems: []apiv1.BenchmarkStep{{Recipe: "rdma", State: "skipped", Why: "no InfiniBand and no RoCE here"}}},
		History: []apiv1.BenchmarkRound{{Before: map[string]map[string]string{"n1": {"platform": platform}}}}}
	for _, text := range slices.Sorted(maps.Keys(series)) {
		c, _ := parse(text)
		s := apiv1.BenchmarkSeries{Recipe: c.recipe, Quantity: c.quantity, Better: "higher", Unit: "GFLOP/s",
			Median: series[text], Interval: &apiv1.Interval{Low: series[text] * 0.99, High: series[text] * 1.01},
			Labels: map[string]string{}}
		for _, w := range c.where {
			s.Labels[w[0]] = w[1]
		}
		for i := range 7 {
			s.Rounds = append(s.Rounds, apiv1.RoundValue{Round: i, Value: series[text] * (0.99 + float64(i)/350)})
		}
		r.Series = append(r.Series, s)
	}
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestPublishedValuesStandBesideMeasuredOnes(t *testing.T) {
	p := Paper{Suite: "s", Panels: []Panel{
		{Figure: "f1", Unit: "TFLOP/s", Of: "hpcc hpl",
			Each: Parts{{"one", "nodes=least"}, {"all", "nodes=most"}, {"NB", "nodes=most best=NB"}},
			Rows: []Row{{"then", []Span{{1, 1}, {2, 3}, {84, 84}}}}},
		{Figure: "f2", Unit: "GFLOP/s", Of: "hpcc hpl", Each: Parts{{"", ""}}, X: "NB", Lines: "nodes",
			Rows: []Row{{"96", []Span{{5, 5}}}}},
		{Figure: "f3", Unit: "µs", Each: Parts{{"", "rdma latency"}}, Rows: []Row{{"then", []Span{{0.9, 0.9}}}}},
		{Figure: "f4", Unit: "GFLOP/s", Times: true, Each: Parts{{"", "hpcc hpl nodes=most per=core"}},
			Rows: []Row{{"T1", []Span{{1, 1}}}, {"T2", []Span{{1, 1}}}, {"T3", []Span{{1, 1}}}}},
		{Figure: "f5", Unit: "%", Each: Parts{{"", "hpcc hpl nodes=most per=dgemm"}}},
		{Figure: "f6", Unit: "GFLOP/s", Of: "hpcc hpl", Each: Parts{{"native", "side=native"}, {"virtual", "side=virtual"}}},
	}}
	measured := map[string]float64{"hpcc hpl nodes=1 NB=64": 20, "hpcc hpl nodes=2 NB=64": 30, "hpcc hpl nodes=2 NB=128": 40,
		"dgemm dgemm nodes=2": 10}
	page, err := p.BesideRuns([]export.Run{run("b", "s", "virtual machine", measured), run("a", "s", "container", measured),
		run("c", "other", "", measured)}, nil)
	if err != nil || len(page.Runs) != 2 || page.Runs[0] != "a on ca" {
		t.Fatal(page.Runs, err)
	}
	own := page.Shown[0].Own
	if len(own) != 2 || own[0].What != "ca, 2 nodes of 4 cores" || !near(own[0].Cells[0].Value, 0.02) ||
		!near(own[0].Cells[1].Value, 0.04) || !near(own[0].Cells[1].Low, 0.0396) || own[0].Cells[2].Value != 128 {
		t.Errorf("%+v", own)
	}
	lines := page.Shown[1].Lines
	if len(lines) != 5 || !lines[0].Published || lines[1].Name != "nodes 1, ca a" || len(lines[2].Points) != 2 ||
		lines[2].Points[1].X != 128 || lines[2].Points[1].Value != 40 {
		t.Errorf("%+v", lines)
	}
	if page.Shown[2].Why != "no InfiniBand and no RoCE here" {
		t.Errorf("%+v", page.Shown[2])
	}
	if own := page.Shown[3].Own; len(own) != 2 || own[1].What != "cb, 2 nodes of 4 cores, T2" || own[1].Cells[0].Value != 5 {
		t.Errorf("%+v", own)
	}
	if own := page.Shown[4].Own; len(own) != 2 || own[0].Cells[0].Value != 50 {
		t.Errorf("%+v", own)
	}
	if own := page.Shown[5].Own; len(own) != 2 || !own[0].Cells[0].Known || own[0].Cells[1].Known || !own[1].Cells[1].Known {
		t.Errorf("%+v", own)
	}
	if page.Published != 8 || page.Beside != 6 { // not: RDMA, T3
		t.Errorf("%d of %d", page.Beside, page.Published)
	}
}

func TestClaimsAreSeenOrNotOrNotDecided(t *testing.T) {
	measured := map[string]float64{"hpcc hpl nodes=1": 20, "hpcc hpl nodes=2": 30}
	few := run("a", "s", "", measured)
	for i := range few.Series {
		few.Series[i].Rounds = few.Series[i].Rounds[:3]
	}
	many := run("b", "s", "container", measured)
	guests := run("c", "s", "virtual machine", measured)
	compared := func(a, b export.Run) apiv1.BenchmarkComparison {
		return apiv1.BenchmarkComparison{A: a.Benchmark, B: b.Benchmark, Quantities: []apiv1.ComparedQuantity{{
			Recipe: "hpcc", Quantity: "hpl", Labels: map[string]string{"nodes": "2"}, N: 7, Ratio: 0.8,
			Interval: &apiv1.Interval{Low: 0.75, High: 0.85}}}}
	}
	two := []apiv1.BenchmarkComparison{compared(many, guests)}
	two[0].Quantities = append(two[0].Quantities, two[0].Quantities[0])
	const over = "hpcc hpl nodes=least"
	for _, c := range []struct {
		name        string
		claim       Claim
		runs        []export.Run
		comparisons []apiv1.BenchmarkComparison
		want        Verdict
		why         string
	}{
		{"it grows", Claim{Of: "hpcc hpl nodes=most", Beside: over, Least: 1.4}, []export.Run{few, many}, nil, Seen, ""},
		{"between", Claim{Of: "hpcc hpl nodes=most", Beside: over, Least: 1.4, Most: 1.6}, []export.Run{many}, nil, Seen, ""},
		{"more than it does", Claim{Of: "hpcc hpl nodes=most", Beside: over, Least: 1.6}, []export.Run{many}, nil, NotSeen, ""},
		{"less than it does", Claim{Of: "hpcc hpl nodes=most", Beside: over, Most: 1.4}, []export.Run{many}, nil, NotSeen, ""},
		{"for each core", Claim{Of: "hpcc hpl nodes=most per=core", Beside: over + " per=core", Least: 0.74, Most: 0.76},
			[]export.Run{many}, nil, Seen, ""},
		{"too few rounds", Claim{Of: "hpcc hpl nodes=most", Beside: over, Least: 1.4}, []export.Run{few}, nil, Undecided,
			"3 rounds do not show how sure it is: six are the fewest"},
		{"the same", Claim{Of: "hpcc hpl nodes=1", Beside: over, Least: 0.9, Most: 1.1}, []export.Run{many}, nil, Undecided,
			"one and the same"},
		{"not there", Claim{Of: "rdma write", Beside: "rdma latency", Least: 1}, []export.Run{many}, nil, Undecided,
			"no InfiniBand"},
		{"no pair", Claim{Of: "hpcc hpl", Beside: native, Least: 0.9}, []export.Run{many}, nil, Undecided,
			"`muster bench compare METAL VIRTUAL --suite s`"},
		{"a pair of one kind", Claim{Of: "hpcc hpl", Beside: native, Least: 0.9}, []export.Run{many, few},
			[]apiv1.BenchmarkComparison{compared(many, few)}, Undecided, "METAL"},
		{"a pair", Claim{Of: "hpcc hpl nodes=2", Beside: native, Least: 0.7, Most: 0.9}, []export.Run{many, guests},
			[]apiv1.BenchmarkComparison{compared(many, guests)}, Seen, ""},
		{"a pair the other way round", Claim{Of: "hpcc hpl nodes=2", Beside: native, Least: 1.1, Most: 1.4},
			[]export.Run{guests, many}, []apiv1.BenchmarkComparison{compared(guests, many)}, Seen, ""},
		{"a pair of several", Claim{Of: "hpcc hpl", Beside: native, Least: 0.7}, []export.Run{many, guests}, two, Undecided,
			"2 ratios are what it may be of"},
		{"a pair that shows another thing", Claim{Of: "hpcc hpl nodes=2", Beside: native, Least: 0.8}, []export.Run{many, guests},
			[]apiv1.BenchmarkComparison{compared(many, guests)}, Undecided, ""},
	} {
		page, err := Paper{Suite: "s", Claims: []Claim{c.claim}}.BesideRuns(c.runs, c.comparisons)
		if err != nil {
			t.Error(c.name, err)
			continue
		}
		if got := page.Judged[0]; got.Verdict != c.want || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestWrongChoicesAreRefused(t *testing.T) {
	for _, text := range []string{"", "hpcc", "hpcc hpl nodes", "hpcc hpl nodes="} {
		if c, err := parse(text); err == nil {
			t.Errorf("%q: %+v", text, c)
		}
	}
	if _, same := factor("GFLOP/s", "ms"); same {
		t.Error("FLOP/s are no time")
	}
}

// TestPanelsHaveNamesOfTheirOwn, by which a page is found its way about.
func TestPanelsHaveNamesOfTheirOwn(t *testing.T) {
	for suite, p := range all(t) {
		seen := map[string]bool{}
		for _, panel := range p.Panels {
			name := panel.Figure + ": " + panel.Shows
			if seen[name] {
				t.Errorf("%s: %s is there twice", suite, name)
			}
			seen[name] = true
		}
	}
}
