package store_test

import (
	"context"
	"testing"

	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestAGuestOnItsWayHoldsPartsOfTwoHosts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addHost(t, s, "hv")
		addHost(t, s, "other")
		addCluster(t, s, "c1", "hello")
		g := guest("hv-g1", "hv", 1, []int{2, 3})
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return admit(ctx, tx, g, 3) })
		there := guest("hv-g1", "other", 1, []int{5, 6})
		holders := func(what string, want ...string) { // of core 2 of hv, and of core 5 of other
			t.Helper()
			view(t, s, func(ctx context.Context, tx *store.Tx) error {
				for i, probe := range []store.Guest{guest("probe", "hv", 1, []int{2}), guest("probe", "other", 1, []int{5})} {
					if holder, err := tx.Holder(ctx, probe); err != nil || holder != want[i] {
						t.Errorf("%s, part %d is held by %q, want %q (%v)", what, i, holder, want[i], err)
					}
				}
				return nil
			})
		}
		start := func(ctx context.Context, tx *store.Tx) error { return tx.StartMove(ctx, there) }

		update(t, s, start)
		holders("on its way", "hv-g1", "hv-g1")
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			m, err := tx.Machine(ctx, "hv-g1")
			if err != nil || m.Host != "hv" || m.Moves == nil || m.Moves.Host != "other" || m.Moves.HostName != "other" || m.Moves.Allocation.Cells[0].Cores[0] != 5 {
				t.Errorf("guest %+v, %+v: %v", m, m.Moves, err)
			}
			for _, host := range []string{"hv", "other"} {
				if guests, err := tx.GuestsOn(ctx, host); err != nil || len(guests) != 1 {
					t.Errorf("%d guests on %s: %v", len(guests), host, err)
				}
			}
			return nil
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.CallOffMove(ctx, g.ID) })
		holders("called off", "hv-g1", "")

		update(t, s, start)
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.EndMove(ctx, there) })
		holders("there", "", "hv-g1")
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			m, err := tx.Machine(ctx, "hv-g1")
			if err != nil || m.Host != "other" || m.Moves != nil || m.Allocation == nil || m.Allocation.Cells[0].Cores[0] != 5 {
				t.Errorf("guest %+v: %v", m, err)
			}
			n, err := tx.Node(ctx, "node-hv-g1")
			if err != nil || n.HostID != "other" {
				t.Errorf("node %+v: %v", n, err)
			}
			return nil
		})

		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return admit(ctx, tx, guest("hv-g2", "hv", 1, []int{2}), 4)
		})
		back := guest("hv-g1", "hv", 1, []int{2})
		err := s.Update(t.Context(), func(tx *store.Tx) error {
			if taken, err := tx.Holder(t.Context(), back); taken != "hv-g2" || err != nil {
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
	s := storetest.Open(t, t.TempDir()+"/db")
	addHost(t, s, "hv")
	addHost(t, s, "other")
	addCluster(t, s, "c1", "hello")
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := admit(ctx, tx, guest("hv-g1", "hv", 1, []int{2}), 3); err != nil {
			return err
		}
		return admit(ctx, tx, guest("other-g1", "other", 1, []int{2}), 4)
	})
	for name, g := range map[string]store.Guest{"a core that is held": guest("hv-g1", "other", 1, []int{2}), "its own host": guest("hv-g1", "hv", 1, []int{7}), "no hypervisor": guest("hv-g1", "id-other-g1", 1, []int{7})} {
		if err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.StartMove(t.Context(), g) }); err == nil {
			t.Errorf("it may move to %s", name)
		}
	}
}
