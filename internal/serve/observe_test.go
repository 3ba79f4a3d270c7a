package serve

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"muster/internal/api"
	"muster/internal/datadir"
	"muster/internal/kinds"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/monitor"
)

// observed is a controller without anything that runs: neither an engine, nor the agents' socket.
func observed(t *testing.T) (*controller, api.About) {
	t.Helper()
	k := &controller{Config: Config{Version: "v", Log: slog.New(slog.DiscardHandler), Metrics: "127.0.0.1:0"},
		dir: datadir.Dir(t.TempDir()), owner: "c1"}
	if err := k.openTelemetry(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.closeTelemetry)
	var err error
	if k.db, err = kinds.Open(t.Context(), filepath.Join(t.TempDir(), "db"), kindstest.Keys()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.db.Close() }) // a test may have closed it
	engine := kinds.NewEngine(k.owner, life.Deps{DB: k.db}, k.Log)
	doors := k.agentDoors(monitor.New(k.db, nil, k.owner, k.Log))
	about := k.about(engine, doors)
	k.registerMetrics(engine, doors, about)
	return k, about
}

func TestAControllerIsReadyOnlyIfEveryCheckPasses(t *testing.T) {
	k, about := observed(t)
	server := httptest.NewServer(k.probes(&api.API{DB: k.db, Telemetry: k.telemetry, About: about}))
	defer server.Close()
	ask := func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var text strings.Builder
		if err := answer.Write(&text); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, text.String()
	}
	if status, _ := ask("/healthz"); status != http.StatusOK {
		t.Errorf("it lives, and answers %d", status)
	}
	status, text := ask("/readyz")
	if status != http.StatusServiceUnavailable {
		t.Errorf("no engine has looked for work, nobody listens for agents, and it answers %d", status)
	}
	for _, part := range []string{`"ready":false`, `{"name":"database","ok":true`, `{"name":"engine","ok":false`,
		`{"name":"agents","ok":false`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	if _, text := ask("/metrics"); !strings.Contains(text, "\nmuster_ready 0\n") ||
		!strings.Contains(text, "\nmuster_database_up 1\n") {
		t.Errorf("metrics say otherwise: %.300s", text)
	}
	if err := k.db.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) { // an answer counts for a moment
		_, text := ask("/readyz")
		if strings.Contains(text, `{"name":"database","ok":false,"text":"does not answer"}`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the database is gone: %s", text)
		}
	}
	if _, text := ask("/metrics"); !strings.Contains(text, "\nmuster_database_up 0\n") {
		t.Errorf("metrics say otherwise: %.300s", text)
	}
}

func TestEveryMetricOfAControllerPassesTheLint(t *testing.T) {
	k, _ := observed(t)
	problems, err := testutil.GatherAndLint(k.telemetry.Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "muster_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

var (
	described  = regexp.MustCompile(`fqName: "([a-z_]+)".*variableLabels: \{([a-z_,]*)\}`)
	metricName = regexp.MustCompile(`\b(?:muster|process|go)_[a-z_]+`)
	labelName  = regexp.MustCompile(`([a-z_]+)=~?"|([a-z_]+)!~?="`)
	byLabels   = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
)

// offered is every metric that a controller has, and every label of any.
func offered(t *testing.T) (metrics map[string]bool, labels map[string]bool) {
	t.Helper()
	k, _ := observed(t)
	metrics, labels = map[string]bool{}, map[string]bool{"le": true, "job": true, "instance": true, "version": true}
	descriptions := make(chan *prometheus.Desc)
	go func() { k.telemetry.Registry().Describe(descriptions); close(descriptions) }()
	for d := range descriptions {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			continue // the Go runtime's
		}
		metrics[parts[1]] = true
		for label := range strings.SplitSeq(parts[2], ",") {
			labels[label] = true
		}
	}
	return metrics, labels
}

// deployed is every expression in the dashboards and rules, by where it stands.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	boards, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(boards) == 0 {
		t.Fatal("there are no dashboards", err)
	}
	for _, path := range boards {
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				all[filepath.Base(path)+": "+panel.Title+": "+target.Expr] = strings.ReplaceAll(target.Expr, "$__rate_interval",
					"5m")
			}
		}
	}
	text, err := os.ReadFile("../../deploy/prometheus/muster.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules.Groups[0].Rules {
		all["rule "+rule.Alert] = rule.Expr
	}
	return all
}

func TestDashboardsAndRulesAskForWhatThereIs(t *testing.T) {
	metrics, labels := offered(t)
	for where, expr := range deployed(t) {
		for _, name := range metricName.FindAllString(expr, -1) {
			plain := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
			if !metrics[name] && !metrics[plain] {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
		for _, found := range labelName.FindAllStringSubmatch(expr, -1) {
			if name := found[1] + found[2]; !labels[name] {
				t.Errorf("%s: there is no label %s", where, name)
			}
		}
		for _, found := range byLabels.FindAllStringSubmatch(expr, -1) {
			for name := range strings.SplitSeq(found[1], ",") {
				if !labels[strings.TrimSpace(name)] {
					t.Errorf("%s: there is no label %s", where, name)
				}
			}
		}
	}
}

// A label with the names of clusters, nodes or machines would make series without end.
func TestMetricsNameNothingThatThereIsNoEndOf(t *testing.T) {
	few := []string{"call", "cause", "door", "driver", "instance", "job", "kind", "le", "limit", "mode", "network", "operation",
		"phase", "project", "protocol", "result", "state", "status", "step", "substrate", "version"}
	_, labels := offered(t)
	delete(labels, "")
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if !slices.Contains(few, name) {
			t.Errorf("a metric has the label %s: are its values few? docs/decisions/observability.md", name)
		}
	}
}

func TestThePageOfMetricsHasThemAll(t *testing.T) {
	metrics, _ := offered(t)
	text, err := os.ReadFile("../../docs/observe.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if strings.HasPrefix(name, "muster_") && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/observe.md does not have %s", name)
		}
	}
	for _, name := range regexp.MustCompile("`(muster_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		if !metrics[name[1]] {
			t.Errorf("docs/observe.md has %s, and no controller does", name[1])
		}
	}
}

func TestPrometheusTakesRulesAndDashboards(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("the syntax of rules and dashboards is not checked: there is no promtool; Debian's package prometheus has it")
	}
	folder := t.TempDir()
	var boards strings.Builder
	boards.WriteString("groups:\n- name: dashboards\n  rules:\n")
	for _, expr := range deployed(t) {
		text, err := json.Marshal(expr) // is YAML, too
		if err != nil {
			t.Fatal(err)
		}
		boards.WriteString("  - {record: a:b, expr: " + string(text) + "}\n")
	}
	file := filepath.Join(folder, "boards.yaml")
	if err := os.WriteFile(file, []byte(boards.String()), fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "--lint=none", file}, {"check", "rules", "muster.rules.yaml"},
		{"test", "rules", "muster.rules.test.yaml"}, {"check", "config", "prometheus.yaml"},
	} {
		c := exec.Command(promtool, args...)
		c.Dir = "../../deploy/prometheus"
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
