package host_test

import (
	"context"
	"errors"
	"testing"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// addRackMachine adds a machine that boots by itself, and so may be whole or hold guests.
func addRackMachine(t *testing.T, s *core.Store, id, mac string) {
	t.Helper()
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		return machine.Add(ctx, tx, inventory.Machine{ID: id, Name: id, Substrate: "metal", Network: "rack", MACs: []string{mac}})
	})
}

func TestNoMachineHasANodeAndGuests(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddCluster(t, s, "c1", "hello")
		addRackMachine(t, s, "r1", "52:54:00:00:00:01")
		addRackMachine(t, s, "r2", "52:54:00:00:00:02")
		tried := func(f func(context.Context, *core.Tx) error) error {
			return s.Update(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) })
		}
		node := func(ctx context.Context, tx *core.Tx) error {
			return kindstest.AddNode(ctx, tx, "node-r1", "c1", "n1", 3, "r1")
		}
		if err := tried(node); err != nil {
			t.Fatal(err)
		}
		if err := tried(func(ctx context.Context, tx *core.Tx) error {
			return host.AddGuest(ctx, tx, guest("r1-g1", "r1", 1, []int{0}), "for a test")
		}); err == nil {
			t.Error("a machine with a node was given a guest")
		}
		if err := tried(func(ctx context.Context, tx *core.Tx) error {
			return admit(ctx, tx, guest("r2-g1", "r2", 1, []int{0}), 4)
		}); err != nil {
			t.Fatal(err)
		}
		if err := tried(func(ctx context.Context, tx *core.Tx) error {
			return kindstest.AddNode(ctx, tx, "node-r2", "c1", "n3", 5, "r2")
		}); err == nil {
			t.Error("a machine with a guest was given a node")
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			onDemand, err := host.EndHypervisor(ctx, tx, "r2")
			if onDemand {
				t.Error("a machine with a guest is said to have turned back")
			}
			return err
		})
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, "r2")
			if !m.HostsOnDemand() || m.Free() {
				t.Errorf("a machine with a guest turned back: %+v", m)
			}
			return err
		})
	})
}

func TestAMachineTurnsBackWhenItsLastGuestHasLeft(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddCluster(t, s, "c1", "hello")
		addRackMachine(t, s, "r1", "52:54:00:00:00:01")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return admit(ctx, tx, guest("r1-g1", "r1", 1, []int{0}), 3)
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			n, err := node.Get(ctx, tx, "node-r1-g1")
			if err == nil {
				err = node.LeaveMachine(ctx, tx, n)
			}
			return err
		})
		claims, err := s.Claim(t.Context(), machine.Kind, "test", 1<<30, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claims {
			if c.ID != "id-r1-g1" {
				continue
			}
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return errors.Join(tx.Settle(ctx, c, core.Settlement{Phase: machine.Removed, Never: true}),
					machine.Forget(ctx, tx, c.ID))
			})
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			onDemand, err := host.EndHypervisor(ctx, tx, "r1")
			if !onDemand {
				t.Error("it is said that it did not turn back")
			}
			return err
		})
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, "r1")
			if m.Hosts {
				t.Errorf("it did not turn back: %+v", m)
			}
			left, err2 := host.LeftAt(ctx, tx, "r1")
			if left.IsZero() {
				t.Error("nobody knows when the last guest left")
			}
			return errors.Join(err, err2)
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return kindstest.AddNode(ctx, tx, "node-r1", "c1", "n2", 4, "r1")
		})
	})
}

func TestWhatAHypervisorIsToHoldIsNumbered(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddCluster(t, s, "c1", "hello")
		addRackMachine(t, s, "r1", "52:54:00:00:00:01")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return admit(ctx, tx, guest("r1-g1", "r1", 1, []int{0}), 3)
		})
		const node = "node-r1-g1"
		revision := int64(0)
		holds := func(what string, want int) {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
				now, all, err := host.HostedOn(ctx, tx, "r1")
				if now <= revision || len(all) != want {
					t.Errorf("%s: revision %d after %d, %d guests", what, now, revision, len(all))
				}
				revision = now
				revisions, err2 := host.Hostings(ctx, tx)
				if revisions["r1"] != now {
					t.Errorf("%s: told of revisions %v", what, revisions)
				}
				return errors.Join(err, err2)
			})
		}
		hold := func(boot, try int64) {
			t.Helper()
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return host.AssignGuest(ctx, tx, "r1", protocol.HostedGuest{Cluster: "c1", Node: node, Boot: boot, Try: try,
					File: protocol.BootFile{Token: "secret"}})
			})
		}
		hold(1, 1)
		holds("one is wanted", 1)
		hold(2, 2)
		holds("its next boot is wanted", 1)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return host.UnassignGuest(ctx, tx, "r1", node) })
		holds("none is wanted", 0)
		hold(3, 3)
		holds("one is wanted again", 1)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(host.MarkSeen(ctx, tx, "r1", 7),
				host.SaveReport(ctx, tx, "r1", protocol.HostReport{Boot: 7, Revision: revision}), host.MarkSeen(ctx, tx, "r1", 7))
		})
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			g, err := host.HostedNode(ctx, tx, node)
			if g.Guest.File.Token != "" || g.Guest.Boot != 3 || g.Guest.Try != 3 || !g.Wanted || g.Since != revision {
				t.Errorf("the row is %+v", g)
			}
			seen, err2 := host.SeenOf(ctx, tx, "r1")
			if seen.Boot != 7 || seen.Report == nil || seen.Report.Revision != revision {
				t.Errorf("its host said %+v", seen)
			}
			return errors.Join(err, err2)
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return host.IsOff(ctx, tx, "r1") })
		holds("the machine was seen off", 0)
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			if _, err := host.SeenOf(ctx, tx, "r1"); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("what a machine said that is off: %v", err)
			}
			return nil
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return host.ForgetHosted(ctx, tx, node) })
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			if _, err := host.HostedNode(ctx, tx, node); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("what was forgotten: %v", err)
			}
			return nil
		})
	})
}
