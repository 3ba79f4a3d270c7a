package store_test

import (
	"context"
	"testing"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/store"
	"muster/internal/store/storetest"
	"muster/internal/telemetry"
)

func TestACensusCountsWhatLives(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 3)
		addCluster(t, s, "c1", "hello")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := addNode(ctx, tx, "n1", "c1", "n1", 3, "m1"); err != nil {
				return err
			}
			return addNode(ctx, tx, "n2", "c1", "n2", 4, "m2")
		})
		claims, err := s.Claim(t.Context(), store.NodeKind, "test", time.Minute, 100)
		if err != nil || len(claims) != 2 {
			t.Fatal(claims, err)
		}
		for _, c := range claims {
			phase := map[string]store.Phase{"n1": store.Ready, "n2": store.Draining}[c.ID]
			update(t, s, func(ctx context.Context, tx *store.Tx) error {
				return tx.Settle(ctx, c, store.Settlement{Phase: phase, Never: true})
			})
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.SaveReport(ctx, "n1", protocol.Report{Boot: 1})
		})
		if _, err := s.Claim(t.Context(), store.MachineKind, "test", time.Minute, 1); err != nil {
			t.Fatal(err)
		}
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			c, err := tx.Census(ctx)
			if err != nil {
				return err
			}
			if c.Phases[store.MachineKind][store.Enrolled] != 3 || c.Phases[store.NodeKind][store.Ready] != 1 || c.Phases[store.NodeKind][store.Draining] != 1 {
				t.Errorf("phases %v", c.Phases)
			}
			if c.Projects["default"] != (store.ProjectTotals{Clusters: 1, Nodes: 2}) {
				t.Errorf("projects %v", c.Projects)
			}
			if q := c.Queues[store.MachineKind]; q.Due != 2 || q.Held != 1 {
				t.Errorf("machines' queue %+v", q)
			}
			if q := c.Queues[store.NodeKind]; q.Due+q.Held != 0 {
				t.Errorf("nodes' queue %+v", q)
			}
			if c.Heard.Silent != 0 || c.Heard.Oldest < 0 || c.Heard.Oldest > store.Silence {
				t.Errorf("heard %+v", c.Heard)
			}
			return nil
		})
	})
}

func TestAnEventNamesItsRequest(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		const id = "4bf92f3577b34da6a3ce929d0e0e4736"
		log := func(ctx context.Context, cluster string) {
			t.Helper()
			err := s.Update(ctx, func(tx *store.Tx) error {
				tx.Log(store.Event{Type: "cluster.requested", ClusterID: cluster, Text: "scale"})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		log(telemetry.WithRequest(t.Context(), id), "c1")
		log(t.Context(), "c1") // what the controller does by itself
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			events, err := tx.Events(ctx, store.EventsOf{Cluster: "c1", Limit: 10})
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
