package store_test

import (
	"context"
	"errors"
	"testing"

	"muster/internal/agent/protocol"
	"muster/internal/inventory"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

// addRackMachine adds a machine that boots by itself, and so may be whole or hold guests.
func addRackMachine(t *testing.T, s *store.Store, id, mac string) {
	t.Helper()
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.AddMachine(ctx, inventory.Machine{ID: id, Name: id, Substrate: "metal", Network: "rack", MACs: []string{mac}})
	})
}

func TestNoMachineHasANodeAndGuests(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addCluster(t, s, "c1", "hello")
		addRackMachine(t, s, "r1", "52:54:00:00:00:01")
		addRackMachine(t, s, "r2", "52:54:00:00:00:02")
		tried := func(f func(context.Context, *store.Tx) error) error {
			return s.Update(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) })
		}
		node := func(ctx context.Context, tx *store.Tx) error { return addNode(ctx, tx, "node-r1", "c1", "n1", 3, "r1") }
		if err := tried(node); err != nil {
			t.Fatal(err)
		}
		if err := tried(func(ctx context.Context, tx *store.Tx) error {
			return tx.AddGuest(ctx, guest("r1-g1", "r1", 1, []int{0}), "for a test")
		}); err == nil {
			t.Error("a machine with a node was given a guest")
		}
		if err := tried(func(ctx context.Context, tx *store.Tx) error {
			return admit(ctx, tx, guest("r2-g1", "r2", 1, []int{0}), 4)
		}); err != nil {
			t.Fatal(err)
		}
		if err := tried(func(ctx context.Context, tx *store.Tx) error { return addNode(ctx, tx, "node-r2", "c1", "n3", 5, "r2") }); err == nil {
			t.Error("a machine with a guest was given a node")
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			onDemand, err := tx.EndHypervisor(ctx, "r2")
			if onDemand {
				t.Error("a machine with a guest is said to have turned back")
			}
			return err
		})
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			m, err := tx.Machine(ctx, "r2")
			if !m.HostsOnDemand() || m.Free() {
				t.Errorf("a machine with a guest turned back: %+v", m)
			}
			return err
		})
	})
}

func TestAMachineTurnsBackWhenItsLastGuestHasLeft(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addCluster(t, s, "c1", "hello")
		addRackMachine(t, s, "r1", "52:54:00:00:00:01")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return admit(ctx, tx, guest("r1-g1", "r1", 1, []int{0}), 3)
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, "node-r1-g1")
			if err == nil {
				err = tx.LeaveMachine(ctx, n)
			}
			return err
		})
		claims, err := s.Claim(t.Context(), store.MachineKind, "test", 1<<30, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claims {
			if c.ID != "id-r1-g1" {
				continue
			}
			update(t, s, func(ctx context.Context, tx *store.Tx) error {
				return errors.Join(tx.Settle(ctx, c, store.Settlement{Phase: store.Removed, Never: true}), tx.ForgetMachine(ctx, c.ID))
			})
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			onDemand, err := tx.EndHypervisor(ctx, "r1")
			if !onDemand {
				t.Error("it is said that it did not turn back")
			}
			return err
		})
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			m, err := tx.Machine(ctx, "r1")
			if m.Hosts {
				t.Errorf("it did not turn back: %+v", m)
			}
			left, err2 := tx.LeftAt(ctx, "r1")
			if left.IsZero() {
				t.Error("nobody knows when the last guest left")
			}
			return errors.Join(err, err2)
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return addNode(ctx, tx, "node-r1", "c1", "n2", 4, "r1") })
	})
}

func TestWhatAHypervisorIsToHoldIsNumbered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addCluster(t, s, "c1", "hello")
		addRackMachine(t, s, "r1", "52:54:00:00:00:01")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return admit(ctx, tx, guest("r1-g1", "r1", 1, []int{0}), 3)
		})
		const node = "node-r1-g1"
		revision := int64(0)
		holds := func(what string, want int) {
			t.Helper()
			view(t, s, func(ctx context.Context, tx *store.Tx) error {
				now, all, err := tx.HostedOn(ctx, "r1")
				if now <= revision || len(all) != want {
					t.Errorf("%s: revision %d after %d, %d guests", what, now, revision, len(all))
				}
				revision = now
				revisions, err2 := tx.Hostings(ctx)
				if revisions["r1"] != now {
					t.Errorf("%s: told of revisions %v", what, revisions)
				}
				return errors.Join(err, err2)
			})
		}
		hold := func(boot, try int64) {
			t.Helper()
			update(t, s, func(ctx context.Context, tx *store.Tx) error {
				return tx.HoldGuest(ctx, "r1", protocol.HostedGuest{Cluster: "c1", Node: node, Boot: boot, Try: try, File: protocol.Boot{Token: "secret"}})
			})
		}
		hold(1, 1)
		holds("one is wanted", 1)
		hold(2, 2)
		holds("its next boot is wanted", 1)
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.LetGuestGo(ctx, "r1", node) })
		holds("none is wanted", 0)
		hold(3, 3)
		holds("one is wanted again", 1)
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.MeetHost(ctx, "r1", 7), tx.SaveHostReport(ctx, "r1", protocol.HostReport{Boot: 7, Revision: revision}), tx.MeetHost(ctx, "r1", 7))
		})
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			g, err := tx.HostedNode(ctx, node)
			if g.Guest.File.Token != "" || g.Guest.Boot != 3 || g.Guest.Try != 3 || !g.Wanted || g.Since != revision {
				t.Errorf("the row is %+v", g)
			}
			seen, err2 := tx.HostSeen(ctx, "r1")
			if seen.Boot != 7 || seen.Report == nil || seen.Report.Revision != revision {
				t.Errorf("its host said %+v", seen)
			}
			return errors.Join(err, err2)
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.HostIsOff(ctx, "r1") })
		holds("the machine was seen off", 0)
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			if _, err := tx.HostSeen(ctx, "r1"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("what a machine said that is off: %v", err)
			}
			return nil
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.ForgetHosted(ctx, node) })
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			if _, err := tx.HostedNode(ctx, node); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("what was forgotten: %v", err)
			}
			return nil
		})
	})
}
