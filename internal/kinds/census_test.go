package kinds_test

import (
	"context"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/kinds"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

func TestACensusCountsWhatLives(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 3)
		kindstest.AddCluster(t, s, "c1", "hello")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 3, "m1"); err != nil {
				return err
			}
			return kindstest.AddNode(ctx, tx, "n2", "c1", "n2", 4, "m2")
		})
		claims, err := s.Claim(t.Context(), node.Kind, "test", time.Minute, 100)
		if err != nil || len(claims) != 2 {
			t.Fatal(claims, err)
		}
		for _, c := range claims {
			phase := map[string]core.Phase{"n1": core.Ready, "n2": node.Draining}[c.ID]
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return tx.Settle(ctx, c, core.Settlement{Phase: phase, Never: true})
			})
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return node.SaveReport(ctx, tx, "n1", protocol.Report{Boot: 1})
		})
		if _, err := s.Claim(t.Context(), machine.Kind, "test", time.Minute, 1); err != nil {
			t.Fatal(err)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			c, err := kinds.Count(ctx, tx)
			if err != nil {
				return err
			}
			if c.Phases[machine.Kind][machine.Enrolled] != 3 || c.Phases[node.Kind][core.Ready] != 1 ||
				c.Phases[node.Kind][node.Draining] != 1 {
				t.Errorf("phases %v", c.Phases)
			}
			if c.Projects["default"] != (kinds.ProjectTotals{Clusters: 1, Nodes: 2}) {
				t.Errorf("projects %v", c.Projects)
			}
			if q := c.Queues[machine.Kind]; q.Due != 2 || q.Held != 1 {
				t.Errorf("machines' queue %+v", q)
			}
			if q := c.Queues[node.Kind]; q.Due+q.Held != 0 {
				t.Errorf("nodes' queue %+v", q)
			}
			if c.Heard.Silent.N != 0 || c.Heard.Oldest < 0 || c.Heard.Oldest > kinds.Silence {
				t.Errorf("heard %+v", c.Heard)
			}
			return nil
		})
	})
}

func TestAnEventNamesItsRequest(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		const id = "4bf92f3577b34da6a3ce929d0e0e4736"
		log := func(ctx context.Context, cluster string) {
			t.Helper()
			err := s.Update(ctx, func(tx *core.Tx) error {
				tx.Log(core.Event{Type: "cluster.requested", ClusterID: cluster, Text: "scale"})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		log(telemetry.WithRequest(t.Context(), id), "c1")
		log(t.Context(), "c1") // what the controller does by itself
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			events, err := tx.Events(ctx, core.EventsOf{Cluster: "c1", Limit: 10})
			if err != nil || len(events) != 2 || events[0].Request != id || events[1].Request != "" {
				t.Errorf("got %+v, %v", events, err)
			}
			request, ago, err := tx.LastRequest(ctx, "c1")
			if err != nil || request != id || ago < 0 || ago > time.Minute {
				t.Errorf("got %s %s, %v", request, ago, err)
			}
			if request, _, err := tx.LastRequest(ctx, "c2"); request != "" || err != nil {
				t.Errorf("another's: %s, %v", request, err)
			}
			return nil
		})
	})
}
