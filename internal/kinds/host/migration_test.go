package host_test

import (
	"context"
	"errors"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/protocol"
)

// onItsWay is a store with a guest of hv that is on its way to other.
func onItsWay(t *testing.T, url string) (s *core.Store, there host.Guest) {
	s = kindstest.Open(t, url)
	addHost(t, s, "hv")
	addHost(t, s, "other")
	kindstest.AddCluster(t, s, "c1", "hello")
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		if err := admit(ctx, tx, guest("hv-g1", "hv", 1, []int{2}), 3); err != nil {
			return err
		}
		return host.AssignGuest(ctx, tx, "hv", protocol.HostedGuest{Cluster: "c1", Node: "node-hv-g1", Boot: 4, Try: 2,
			Machine: "hv-g1", Allocation: []byte(`{"share":1}`), File: protocol.BootFile{Name: "n1"}})
	})
	there = guest("hv-g1", "other", 1, []int{5})
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return host.StartMove(ctx, tx, there) })
	depart(t, s)
	return s, there
}

func depart(t *testing.T, s *core.Store) {
	t.Helper()
	kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
		return host.StartMigration(ctx, tx, host.Migration{
			Node: "node-hv-g1", Source: host.Endpoint{Host: "hv", Does: protocol.MoveLeave}, Target: host.Endpoint{Host: "other"},
			Stage: "describing", Kept: true,
			Guest: protocol.HostedGuest{Cluster: "c1", Node: "node-hv-g1", Boot: 4, Try: 2, Allocation: []byte(`{"share":4}`),
				File: protocol.BootFile{Token: "must not be kept", Name: "n1"}},
		})
	})
}

// revisions are what each host is told last.
func revisions(t *testing.T, s *core.Store) (all map[string]int64) {
	t.Helper()
	kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
		all, err = host.Hostings(ctx, tx)
		return err
	})
	return all
}

func TestAMoveIsARowOfWhichBothHostsAreTold(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s, _ := onItsWay(t, url)
		var a host.Migration
		look := func() {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				a, err = host.MigrationOfNode(ctx, tx, "node-hv-g1")
				return err
			})
		}
		look()
		now := revisions(t, s)
		if a.Step != 1 || a.Stage != "describing" || !a.Kept || a.Source.Does != protocol.MoveLeave || a.Source.Name != "hv" ||
			a.Target.Does != "" || a.Begun.IsZero() ||
			a.Source.Since != now["hv"] || a.Target.Since != now["other"] || a.Number != a.Target.Since ||
			a.Guest.File.Token != "" || a.Guest.Try != 2 {
			t.Errorf("the first stage: %+v, and the hosts are at %v", a, now)
		}
		depart(t, s) // again
		first := a
		if look(); a.Number != first.Number || a.Step != 1 || a.Source.Since != first.Source.Since {
			t.Errorf("begun again it is %+v, and was %+v", a, first)
		}
		next := a
		next.Stage, next.Source.Does, next.Target.Does, next.Kept, next.Description, next.Address, next.Why = "arriving", "",
			protocol.MoveArrive, false, "it", "10.0.0.1:7422", "because"
		step := func(ctx context.Context, tx *core.Tx) error { return host.StepMigration(ctx, tx, next) }
		kindstest.Update(t, s, step)
		look()
		if a.Step != 2 || a.Stage != "arriving" || a.Kept || a.Target.Does != protocol.MoveArrive || a.Description != "it" ||
			a.Address != "10.0.0.1:7422" || a.Why != "because" || a.Number != first.Number {
			t.Errorf("the next stage: %+v", a)
		}
		if now := revisions(t, s); a.Source.Since != now["hv"] || a.Target.Since != now["other"] {
			t.Errorf("the hosts are at %v, and it is so since %d and %d", now, a.Source.Since, a.Target.Since)
		}
		next.Stage = "somewhere else"
		kindstest.Update(t, s, step) // of somebody who was overtaken
		if look(); a.Stage != "arriving" || a.Step != 2 {
			t.Errorf("who was overtaken has gone on: %+v", a)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			for _, hostID := range []string{"hv", "other"} {
				if all, err := host.MigrationsAt(ctx, tx, hostID); err != nil || len(all) != 1 || all[0].Node != "node-hv-g1" {
					t.Errorf("at %s are %+v (%v)", hostID, all, err)
				}
			}
			return nil
		})
	})
}

func TestAMoveEndsWithTheGuestAtOneOfItsHosts(t *testing.T) {
	for name, one := range map[string]struct {
		end    func(context.Context, *core.Tx, host.Guest) error
		host   string
		wanted bool
		share  string // of what it holds
	}{
		"moved": {func(ctx context.Context, tx *core.Tx, g host.Guest) error {
			return host.EndMove(ctx, tx, g)
		}, "other", true, `{"share":4}`},
		"called off": {func(ctx context.Context, tx *core.Tx, g host.Guest) error {
			return host.CallOffMove(ctx, tx, g.ID)
		}, "hv", true, `{"share":1}`},
		"to end": {func(ctx context.Context, tx *core.Tx, _ host.Guest) error {
			return host.ForgetMigration(ctx, tx, "node-hv-g1")
		}, "hv", false, `{"share":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			kindstest.Each(t, func(t *testing.T, url string) {
				s, there := onItsWay(t, url)
				before := revisions(t, s)
				kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return one.end(ctx, tx, there) })
				kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
					if _, err := host.MigrationOfNode(ctx, tx, "node-hv-g1"); !errors.Is(err, core.ErrNotFound) {
						t.Errorf("the move is there still: %v", err)
					}
					g, err := host.HostedNode(ctx, tx, "node-hv-g1")
					if g.HostID != one.host || g.Wanted != one.wanted || string(g.Guest.Allocation) != one.share ||
						g.Guest.Boot != 4 || g.Guest.Try != 2 || g.Guest.File.Name != "n1" {
						t.Errorf("it is held as %+v", g)
					}
					return err
				})
				for host, now := range revisions(t, s) {
					if now <= before[host] {
						t.Errorf("%s is told nothing of it", host)
					}
				}
			})
		})
	}
}
