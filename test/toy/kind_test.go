package toy

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/kindstest"
	"muster/internal/monitor"
	"muster/test/toy/ticket"
)

// allKinds is the list with the toy's line.
func allKinds() []core.Definition {
	return append(kinds.All(),
		ticket.Definition(),
	)
}

// A kind is a folder and a line: its table, its claims and leases, its census and its metrics, its events and its life follow.
func TestAToyKindLivesByItsLine(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		db, err := core.Open(t.Context(), url, kindstest.Keys(), allKinds(), core.Volatile)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
			if err := ticket.Add(ctx, tx, "t1", "a fan is loud"); err != nil {
				return err
			}
			return ticket.Add(ctx, tx, "t2", "")
		})
		if held, err := db.Claim(t.Context(), ticket.Kind, "another", time.Hour, 1); err != nil || len(held) != 1 {
			t.Fatal(held, err)
		}
		kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
			c, err := kinds.Count(ctx, tx)
			if q := c.Queues[ticket.Kind]; err == nil && (c.Phases[ticket.Kind][core.Pending] != 2 || q.Due != 1 || q.Held != 1) {
				t.Errorf("counted %v, %+v", c.Phases[ticket.Kind], q)
			}
			return err
		})
		if err := db.ReleaseLeases(t.Context(), "another"); err != nil {
			t.Fatal(err)
		}

		engine := core.NewEngine(db, "toy", []core.Table{ticket.Life(db)}, nil, slog.New(slog.DiscardHandler))
		for range ticket.Definition().Phases { // as many steps as a life has
			if err := engine.Step(t.Context(), ticket.Kind, func() bool { return false }); err != nil {
				t.Fatal(err)
			}
		}
		kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
			for id, want := range map[string]core.Phase{"t1": ticket.Closed, "t2": core.Failed} {
				if got, err := ticket.Get(ctx, tx, id); err != nil || got.Phase != want {
					t.Errorf("%s is %s, want %s: %v", id, got.Phase, want, err)
				}
			}
			events, err := tx.Events(ctx, core.EventsOf{Limit: 10})
			var told []string
			for _, e := range events {
				told = append(told, e.Type+" "+e.Node+" "+string(e.Phase)+": "+e.Text)
			}
			for _, want := range []string{"ticket.phase t1 closed: done: a fan is loud",
				"ticket.phase t2 failed: it says nothing"} {
				if !slices.Contains(told, want) {
					t.Errorf("no event %q among %q", want, told)
				}
			}
			return err
		})
		registry, answer := prometheus.NewPedanticRegistry(), httptest.NewRecorder()
		registry.MustRegister(monitor.NewMetrics(db))
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
			ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for _, line := range []string{`muster_entities{kind="ticket",phase="failed"} 1`,
			`muster_entities{kind="ticket",phase="pending"} 0`} {
			if !strings.Contains(answer.Body.String(), line+"\n") {
				t.Errorf("there is no line %s", line)
			}
		}
	})
}
