package store_test

import (
	"context"
	"testing"

	"muster/internal/agent/protocol"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestAHostIsKnownForTheNodesThatSleepThere(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addHost(t, s, "hv")
		addHost(t, s, "other")
		addCluster(t, s, "c1", "hello")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return admit(ctx, tx, guest("hv-g1", "hv", 1, []int{2}), 3)
		})
		sleeps := func(host string, want bool) {
			t.Helper()
			view(t, s, func(ctx context.Context, tx *store.Tx) error {
				is, err := tx.SleepsOn(ctx, host)
				if is != want {
					t.Errorf("nodes sleep on %s: %v", host, is)
				}
				return err
			})
		}
		sleeps("hv", false)
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.PutToSleep(ctx, "node-hv-g1") })
		sleeps("hv", true)
		sleeps("other", false)
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.WokeUp(ctx, "node-hv-g1") })
		sleeps("hv", false)
	})
}

func TestWhatIsAskedOfAGuestIsKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addHost(t, s, "hv")
		addCluster(t, s, "c1", "hello")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := admit(ctx, tx, guest("hv-g1", "hv", 1, []int{2}), 3); err != nil {
				return err
			}
			return tx.HoldGuest(ctx, "hv", protocol.HostedGuest{Cluster: "c1", Node: "node-hv-g1", Boot: 4, Try: 2, Do: protocol.DoSleep, Again: 1, Machine: "hv-g1"})
		})
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			g, err := tx.HostedNode(ctx, "node-hv-g1")
			if g.Guest.Do != protocol.DoSleep || g.Guest.Again != 1 || g.Guest.Try != 2 || !g.Wanted {
				t.Errorf("it is kept as %+v", g)
			}
			return err
		})
	})
}
