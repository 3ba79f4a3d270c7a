package host_test

import (
	"context"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

func TestAHostIsKnownForTheNodesThatSleepThere(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		addHost(t, s, "other")
		kindstest.AddCluster(t, s, "c1", "hello")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return admit(ctx, tx, guest("hv-g1", "hv", 1, []int{2}), 3)
		})
		sleeps := func(host string, want bool) {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
				is, err := node.SleepsOn(ctx, tx, host)
				if is != want {
					t.Errorf("nodes sleep on %s: %v", host, is)
				}
				return err
			})
		}
		sleeps("hv", false)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return node.PutToSleep(ctx, tx, "node-hv-g1") })
		sleeps("hv", true)
		sleeps("other", false)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return node.WokeUp(ctx, tx, "node-hv-g1") })
		sleeps("hv", false)
	})
}

func TestWhatIsAskedOfAGuestIsKept(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		kindstest.AddCluster(t, s, "c1", "hello")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := admit(ctx, tx, guest("hv-g1", "hv", 1, []int{2}), 3); err != nil {
				return err
			}
			return host.AssignGuest(ctx, tx, "hv", protocol.HostedGuest{Cluster: "c1", Node: "node-hv-g1", Boot: 4, Try: 2,
				Do: protocol.DoSleep, Again: 1, Machine: "hv-g1"})
		})
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			g, err := host.HostedNode(ctx, tx, "node-hv-g1")
			if g.Guest.Do != protocol.DoSleep || g.Guest.Again != 1 || g.Guest.Try != 2 || !g.Wanted {
				t.Errorf("it is kept as %+v", g)
			}
			return err
		})
	})
}
