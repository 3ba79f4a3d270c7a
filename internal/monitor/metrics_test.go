package monitor_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"muster/internal/core"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/kindstest"
	"muster/internal/monitor"
)

// TestEveryKindIsMeasuredByItsOwnPhases had snapshots and fabrics in the phases of machines, and no degraded fabric, once.
func TestEveryKindIsMeasuredByItsOwnPhases(t *testing.T) {
	db := kindstest.Open(t, t.TempDir()+"/db")
	err := db.Update(t.Context(), func(tx *core.Tx) error {
		return fabrics.Add(t.Context(), tx, fabrics.Fabric{ID: "f1", Name: "ib0", Driver: "any"})
	})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := db.Claim(t.Context(), fabrics.Kind, "test", 1<<40, 1)
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	err = db.Update(t.Context(), func(tx *core.Tx) error {
		return tx.Settle(context.WithoutCancel(t.Context()), claims[0], core.Settlement{Phase: core.Degraded, Never: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	registry, answer := prometheus.NewPedanticRegistry(), httptest.NewRecorder()
	registry.MustRegister(monitor.NewMetrics(db))
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := answer.Body.String()
	series := 0
	for _, d := range db.Living() {
		for _, phase := range d.Phases {
			series++
			n := " 0\n"
			if d.Kind == fabrics.Kind && phase == core.Degraded {
				n = " 1\n"
			}
			if line := `muster_entities{kind="` + string(d.Kind) + `",phase="` + string(phase) + `"}` +
				n; !strings.Contains(text, line) {
				t.Errorf("there is no line %s", line)
			}
		}
	}
	if got := strings.Count(text, "muster_entities{"); got != series {
		t.Errorf("%d series, want %d:\n%s", got, series, text)
	}
}
