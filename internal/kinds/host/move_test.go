package host_test

import (
	"context"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

func TestAGuestOnItsWayHoldsPartsOfTwoHosts(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		addHost(t, s, "hv")
		addHost(t, s, "other")
		kindstest.AddCluster(t, s, "c1", "hello")
		g := guest("hv-g1", "hv", 1, []int{2, 3})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return admit(ctx, tx, g, 3) })
		there := guest("hv-g1", "other", 1, []int{5, 6})
		holders := func(what string, want ...string) { // of core 2 of hv, and of core 5 of other
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
				for i, probe := range []host.Guest{guest("probe", "hv", 1, []int{2}), guest("probe", "other", 1, []int{5})} {
					if holder, err := host.Holder(ctx, tx, probe); err != nil || holder != want[i] {
						t.Errorf("%s, part %d is held by %q, want %q (%v)", what, i, holder, want[i], err)
					}
				}
				return nil
			})
		}
		start := func(ctx context.Context, tx *core.Tx) error { return host.StartMove(ctx, tx, there) }

		kindstest.Update(t, s, start)
		holders("on its way", "hv-g1", "hv-g1")
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, "hv-g1")
			if err != nil || m.Host != "hv" || m.Moves == nil || m.Moves.Host != "other" || m.Moves.HostName != "other" ||
				m.Moves.Allocation.Cells[0].Cores[0] != 5 {
				t.Errorf("guest %+v, %+v: %v", m, m.Moves, err)
			}
			for _, host := range []string{"hv", "other"} {
				if guests, err := machine.GuestsOn(ctx, tx, host); err != nil || len(guests) != 1 {
					t.Errorf("%d guests on %s: %v", len(guests), host, err)
				}
			}
			return nil
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return host.CallOffMove(ctx, tx, g.ID) })
		holders("called off", "hv-g1", "")

		kindstest.Update(t, s, start)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return host.EndMove(ctx, tx, there) })
		holders("there", "", "hv-g1")
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, "hv-g1")
			if err != nil || m.Host != "other" || m.Moves != nil || m.Allocation == nil || m.Allocation.Cells[0].Cores[0] != 5 {
				t.Errorf("guest %+v: %v", m, err)
			}
			n, err := node.Get(ctx, tx, "node-hv-g1")
			if err != nil || n.HostID != "other" {
				t.Errorf("node %+v: %v", n, err)
			}
			return nil
		})

		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return admit(ctx, tx, guest("hv-g2", "hv", 1, []int{2}), 4)
		})
		back := guest("hv-g1", "hv", 1, []int{2})
		err := s.Update(t.Context(), func(tx *core.Tx) error {
			if taken, err := host.Holder(t.Context(), tx, back); taken != "hv-g2" || err != nil {
				t.Errorf("core 2 of hv is held by %q (%v)", taken, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestNoGuestMovesToWhatAnotherHolds(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	addHost(t, s, "hv")
	addHost(t, s, "other")
	kindstest.AddCluster(t, s, "c1", "hello")
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		if err := admit(ctx, tx, guest("hv-g1", "hv", 1, []int{2}), 3); err != nil {
			return err
		}
		return admit(ctx, tx, guest("other-g1", "other", 1, []int{2}), 4)
	})
	for name, g := range map[string]host.Guest{"a core that is held": guest("hv-g1", "other", 1, []int{2}),
		"its own host": guest("hv-g1", "hv", 1, []int{7}), "no hypervisor": guest("hv-g1", "id-other-g1", 1, []int{7})} {
		if err := s.Update(t.Context(), func(tx *core.Tx) error { return host.StartMove(t.Context(), tx, g) }); err == nil {
			t.Errorf("it may move to %s", name)
		}
	}
}
