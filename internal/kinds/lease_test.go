package kinds_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/spec"
)

// ask is create with a lease, which may be refused.
func (s *fixture) ask(name string, nodes int, lease spec.Lease) (id string, err error) {
	err = s.db.Update(s.Context(), func(tx *core.Tx) error {
		plan, err := s.admission.Create(s.Context(), tx, spec.Cluster{Name: name, Nodes: nodes, Lease: &lease})
		if err != nil {
			return err
		}
		c, err := s.admission.CarryOut(s.Context(), tx, plan, "admin", 0)
		id = c.ID
		return err
	})
	return id, err
}

func (s *fixture) lease(name string, nodes int, lease spec.Lease) (id string) {
	s.Helper()
	id, err := s.ask(name, nodes, lease)
	if err != nil {
		s.Fatal(err)
	}
	return id
}

func (s *fixture) extend(id string, until time.Time) error {
	return s.db.Update(s.Context(), func(tx *core.Tx) error {
		c, err := cluster.Get(s.Context(), tx, id)
		if err != nil {
			return err
		}
		plan, err := s.admission.Change(s.Context(), tx, c, admission.Prolonged(c, until))
		if err != nil {
			return err
		}
		_, err = s.admission.CarryOut(s.Context(), tx, plan, "admin", 0)
		return err
	})
}

// told are the texts of a cluster's events of one type.
func (s *fixture) told(id, kind string) (texts []string) {
	s.Helper()
	s.view(func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Cluster: id, Limit: 10_000})
		for _, e := range events {
			if e.Type == kind {
				texts = append(texts, e.Text)
			}
		}
		return err
	})
	return texts
}

func TestALeaseEndsByItself(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 6)
		s.admission.Catalogue.Leases.Warn = []time.Duration{time.Hour, 20 * time.Minute, 10 * time.Minute}
		s.run(2)
		s.untilFree(6)
		goes := s.lease("goes", 1, spec.Lease{For: "30m", OnEnd: spec.OnEndDelete})
		stays := s.lease("stays", 1, spec.Lease{For: "30m"})
		s.untilReady(goes, 1)
		s.untilReady(stays, 1)
		s.clock.Advance(20 * time.Minute)
		s.until(goes, "warned", func(cluster.Cluster, []node.Node) bool { return len(s.told(goes, "cluster.lease")) > 0 })
		s.clock.Advance(10 * time.Minute)
		s.until(goes, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
		if told := strings.Join(s.told(goes, "cluster.lease"), "\n"); !strings.HasSuffix(told,
			"its lease has ended: it is deleted") ||
			!strings.Contains(told, "its lease ends within 10m") || strings.Contains(told, "1h") {
			t.Error(told)
		}

		c := s.untilPaused(stays)
		if err := s.resume(stays); err == nil || !strings.Contains(err.Error(), "muster extend stays --for 1d") {
			t.Error("resumed after the end of its lease:", err)
		}
		if err := s.extend(stays, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := s.resume(stays); err != nil {
			t.Fatal(err)
		}
		s.until(stays, "ready again", func(now cluster.Cluster, _ []node.Node) bool { return now.Phase == core.Ready })
		if told := s.told(stays, "cluster.lease"); c.EndsAt.IsZero() || !slices.Contains(told, "its lease has ended: it pauses") {
			t.Error(c.EndsAt, told)
		}
	})
}

func TestReservationsStartByThemselvesAndShortLeasesFillTheTimeBefore(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 4)
		s.run(2)
		s.untilFree(4)
		first := s.lease("first", 2, spec.Lease{Start: "+10h", For: "4h", OnEnd: spec.OnEndDelete})
		second := s.lease("second", 3, spec.Lease{Start: "+18h", For: "1h", OnEnd: spec.OnEndDelete})
		s.until(first, "told when it starts", func(c cluster.Cluster, nodes []node.Node) bool {
			return c.Phase == core.Pending && strings.HasPrefix(c.Reason, "starts ") && len(nodes) == 0 && c.Short == ""
		})
		if _, err := s.ask("long", 2, spec.Lease{}); err == nil || !strings.Contains(err.Error(), "has reserved") {
			t.Error("machines that are reserved were given away:", err)
		}
		short := s.lease("short", 3, spec.Lease{For: "3h", OnEnd: spec.OnEndDelete})
		s.untilReady(short, 3)
		s.clock.Advance(3 * time.Hour)
		s.untilClean(short)
		s.clock.Advance(7 * time.Hour)
		s.untilReady(first, 2)
		s.view(func(ctx context.Context, tx *core.Tx) error {
			now, err := tx.Now(ctx)
			c, _ := cluster.Get(ctx, tx, first)
			if now.Before(c.StartsAt) {
				t.Errorf("it started %s early", c.StartsAt.Sub(now))
			}
			return err
		})
		s.clock.Advance(4 * time.Hour)
		s.until(first, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
		s.clock.Advance(4 * time.Hour)
		s.untilReady(second, 3)
	})
}

func TestAReservationThatIsDeletedFreesItsTime(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 2)
		s.run(1)
		s.untilFree(2)
		id := s.lease("later", 1, spec.Lease{Start: "+1h"})
		if _, err := s.ask("now", 1, spec.Lease{}); err == nil {
			t.Fatal("reserved machines were given away for ever")
		}
		s.remove(id)
		s.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
		s.untilReady(s.lease("now", 1, spec.Lease{}), 1)
	})
}

// A machine is lost before the start: the reservation says so as soon as it is known, and comes as far as it can.
func TestAReservationThatHasLostAMachineComesAsFarAsItCan(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 3)
		s.run(1)
		s.untilFree(3)
		id := s.lease("later", 2, spec.Lease{Start: "+1h", For: "1h"})
		var lost machine.Machine
		s.update(func(ctx context.Context, tx *core.Tx) error {
			machines, err := machine.List(ctx, tx)
			if err != nil {
				return err
			}
			lost = machines[0]
			return machine.Want(ctx, tx, lost.ID, machine.ForMaintenance)
		})
		s.awaitMachine(lost.Name, "out of service", func(m machine.Machine) bool { return m.Phase == machine.Maintenance })
		s.clock.Advance(time.Hour)
		s.update(func(_ context.Context, tx *core.Tx) error { tx.Wake(cluster.Kind, id); return nil })
		s.until(id, "degraded, with one of two nodes", func(c cluster.Cluster, nodes []node.Node) bool {
			ready := 0
			for _, n := range nodes {
				if n.Phase == core.Ready {
					ready++
				}
			}
			return c.Phase == core.Degraded && ready == 2 && strings.Contains(c.Short, "1 more asked")
		})
		s.update(func(ctx context.Context, tx *core.Tx) error {
			return machine.Want(ctx, tx, lost.ID, machine.ForService)
		})
		s.untilReady(id, 2)
	})
}

// Who runs goes first: a node that fails is replaced by a machine that a reservation wants, which is told.
func TestAReplacementMayTakeAReservedMachineAndTheReservationIsTold(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 4)
		s.limit(func(l *substrate.Deadlines) { l.Quarantine = time.Hour })
		s.run(1)
		s.untilFree(4)
		running := s.lease("running", 1, spec.Lease{})
		s.untilReady(running, 1)
		later := s.lease("later", 1, spec.Lease{Start: "+1h"})
		var victim node.Node
		s.view(func(ctx context.Context, tx *core.Tx) error {
			nodes, err := node.Of(ctx, tx, running)
			victim = nodes[1]
			return err
		})
		s.substrate.DieWithMachine(victim.Machine)
		// as its agent's silence will
		s.update(func(_ context.Context, tx *core.Tx) error { tx.Wake(node.Kind, victim.ID); return nil })
		s.until(running, "whole again", func(c cluster.Cluster, nodes []node.Node) bool {
			return c.Phase == core.Ready && len(nodes) == 2 && nodes[1].Machine != victim.Machine
		})
		s.update(func(_ context.Context, tx *core.Tx) error { tx.Wake(cluster.Kind, later); return nil })
		s.until(later, "told what it will lack", func(c cluster.Cluster, _ []node.Node) bool {
			return c.Short == "at present, 1 machine would be missing at its start"
		})
		if told := s.told(later, "cluster.short"); len(told) != 1 {
			t.Error(told)
		}
	})
}
