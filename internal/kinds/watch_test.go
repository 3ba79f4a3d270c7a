package kinds_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
)

// logbook is what an engine logs, a line an object.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logbook) lines(t *testing.T) (all []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lines := bufio.NewScanner(bytes.NewReader(l.text.Bytes())); lines.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	return all
}

func TestEveryStepIsCountedAndEveryLineSaysWhom(t *testing.T) {
	t.Parallel()
	s := newFixture(t, filepath.Join(t.TempDir(), "db"), 4)
	s.deps.Telemetry = telemetry.New("test")
	s.db.Telemetry = s.deps.Telemetry
	var log logbook
	engine := kinds.NewEngine("e1", s.deps, slog.New(slog.NewJSONHandler(&log, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- kindstest.Run(ctx, engine) }()
	s.run(0)
	s.untilFree(4)
	id := s.create("hello", 2)
	s.untilReady(id, 2)
	var victim node.Node
	s.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, id)
		victim = nodes[1]
		return err
	})
	s.substrate.DieWithMachine(victim.Machine)
	s.update(func(_ context.Context, tx *core.Tx) error { tx.Wake(node.Kind, victim.ID); return nil })
	s.until(id, "whole again", func(c cluster.Cluster, nodes []node.Node) bool {
		return c.Phase == core.Ready && len(nodes) == 3 && nodes[1].ID != victim.ID
	})
	s.eventually(func() bool { // its machine is not waited for by the cluster
		is := func(line map[string]any) bool { return line["msg"] == "goes on to quarantined" }
		return slices.ContainsFunc(log.lines(t), is)
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	answer := httptest.NewRecorder()
	s.deps.Telemetry.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`muster_phase_seconds_count{kind="node",phase="booting"} 4`, // head, two nodes, and the one that replaced
		`muster_phase_seconds_count{kind="cluster",phase="pending"} 1`,
		`muster_failures_total{cause="stopped",kind="node",phase="ready"} 1`,
		`muster_engine_steps_total{kind="node",phase="pending",result="advanced"} 4`,
	} {
		if !strings.Contains(answer.Body.String(), line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	for _, name := range []string{`muster_driver_call_seconds_count{call="ensure",driver="local"}`,
		`muster_store_transaction_seconds_count{mode="write"}`} {
		if !strings.Contains(answer.Body.String(), name) {
			t.Errorf("missing: %s", name)
		}
	}

	told := map[string]bool{}
	for _, line := range log.lines(t) {
		if line["kind"] == nil || line["id"] == nil || line["fence"] == nil || line["phase"] == nil {
			t.Errorf("does not say what it is about: %v", line)
		}
		switch line["kind"] {
		case "node":
			if line["cluster"] != "hello" || line["node"] == nil || line["machine"] == nil || line["op"] != id+"/1" {
				t.Errorf("does not say which node: %v", line)
			}
		case "cluster":
			if line["cluster"] != "hello" || line["op"] != id+"/1" {
				t.Errorf("does not say which cluster: %v", line)
			}
		case "machine":
			if line["machine"] == nil {
				t.Errorf("does not say which machine: %v", line)
			}
		}
		told[line["msg"].(string)] = true
	}
	for _, words := range []string{"goes on to failed", "goes on to quarantined", "goes on to degraded", "goes on to ready"} {
		if !told[words] {
			t.Errorf("nothing %s: %v", words, told)
		}
	}
}

// TestEveryPhaseOfEveryKindHasItsHandler compares the engine's tables with how the kinds are defined.
func TestEveryPhaseOfEveryKindHasItsHandler(t *testing.T) {
	t.Parallel()
	w := newWeave(t, t.TempDir()+"/db", 1)
	handled := kinds.NewEngine("e1", w.deps, slog.New(slog.DiscardHandler)).Handled()
	for _, d := range w.db.Living() {
		want, got := slices.Sorted(slices.Values(d.Phases)), slices.Sorted(slices.Values(handled[d.Kind]))
		if !slices.Equal(want, got) {
			t.Errorf("%s: its phases are %v, and those with handlers %v", d.Kind, want, got)
		}
		delete(handled, d.Kind)
	}
	if len(handled) > 0 {
		t.Errorf("kinds that nobody has defined: %v", handled)
	}
}
