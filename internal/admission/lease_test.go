package admission_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/spec"
)

// rules gives admission's site rules for leases; its classes' machines need no time to come and go.
func (d fixture) rules(leases string) fixture {
	d.Helper()
	path := d.TempDir() + "/site.yaml"
	write(d.T, path, strings.ReplaceAll(site, ", price:", ", lead: 0s, price:")+leases)
	catalogue, err := inventory.ReadCatalogue(path)
	if err != nil {
		d.Fatal(err)
	}
	d.Catalogue = catalogue
	return d
}

func (d fixture) now() (now time.Time) {
	d.Helper()
	if err := d.db.View(d.Context(), func(tx *core.Tx) (err error) { now, err = tx.Now(d.Context()); return err }); err != nil {
		d.Fatal(err)
	}
	return now
}

// change plans another lease for a cluster, and carries it out if it may.
func (d fixture) change(c cluster.Cluster, edit func(*spec.Cluster)) (*admission.Plan, error) {
	d.Helper()
	var plan *admission.Plan
	err := d.db.Update(d.Context(), func(tx *core.Tx) error {
		current, err := cluster.Get(d.Context(), tx, c.ID)
		if err != nil {
			return err
		}
		want := current.Spec
		edit(&want)
		if plan, err = d.Change(d.Context(), tx, current, want); err != nil {
			return err
		}
		_, err = d.CarryOut(d.Context(), tx, plan, "admin", 0)
		return err
	})
	return plan, err
}

func (d fixture) until(c cluster.Cluster, end time.Time) error {
	d.Helper()
	_, err := d.change(c, func(want *spec.Cluster) {
		c, err := d.cluster(c.ID)
		if err != nil {
			d.Fatal(err)
		}
		*want = admission.Prolonged(c, end)
	})
	return err
}

func (d fixture) cluster(id string) (c cluster.Cluster, err error) {
	err = d.db.View(d.Context(), func(tx *core.Tx) (err error) { c, err = cluster.Get(d.Context(), tx, id); return err })
	return c, err
}

func refusal(t *testing.T, err error, kind admission.Kind, words ...string) *admission.Refusal {
	t.Helper()
	var r *admission.Refusal
	if !errors.As(err, &r) || r.Kind != kind {
		t.Fatalf("not refused as it should be: %v", err)
	}
	for _, word := range words {
		if !strings.Contains(r.Error(), word) {
			t.Errorf("no %q in: %v", word, r)
		}
	}
	return r
}

func TestAReservationTakesNothingNowAndIsHonoured(t *testing.T) {
	d := newFixture(t, farm(4, 0)...).rules("")
	course := d.create("name: course\nnodes: 3\nlease: {start: +8h, for: 2h, on_end: delete}\n")
	if course.StartsAt.Sub(d.now()) < 7*time.Hour || course.EndsAt.Sub(course.StartsAt) != 2*time.Hour {
		t.Fatal(course.Term)
	}
	_ = d.db.View(t.Context(), func(tx *core.Tx) error {
		if nodes, err := node.Of(t.Context(), tx, course.ID); err != nil || len(nodes) > 0 {
			t.Error(nodes, err)
		}
		return nil
	})

	_, err := d.plan("name: long\nnodes: 1\n")
	long := refusal(t, err, admission.NoCapacity, "cluster course would lack 2 machines", "that it has reserved from "+
		spec.When(course.StartsAt), "fits: lease: {for: 7h}")
	start := offered(long, admission.LaterStart).Start
	if !start.Equal(course.EndsAt) {
		t.Errorf("%v, not when the reservation ends, %s", start, course.EndsAt)
	}
	if _, err := d.plan("name: long\nnodes: 1\nlease: {start: " + start.Format(time.RFC3339) + "}\n"); err != nil {
		t.Error("what was said to fit does not:", err)
	}

	// A short lease fills the time before, and may last until then and no longer.
	short := d.create("name: short\nnodes: 3\nlease: {for: 7h, on_end: delete}\n")
	err = d.until(short, course.StartsAt.Add(time.Hour))
	refusal(t, err, admission.NoCapacity, "cluster course would lack 4 machines", "muster extend short --until "+
		course.StartsAt.Format(time.RFC3339))
	if err := d.until(short, course.StartsAt); err != nil {
		t.Error("what was said to fit does not:", err)
	}
	if c, _ := d.cluster(short.ID); !c.EndsAt.Equal(course.StartsAt) {
		t.Error(c.EndsAt)
	}

	// Two reservations.
	at := d.now().Add(9 * time.Hour)
	_, err = d.plan("name: second\nnodes: 1\nlease: {start: " + at.Format(time.RFC3339) + ", for: 2h, on_end: delete}\n")
	refusal(t, err, admission.NoCapacity, "from "+spec.When(at))
	second := d.create("name: second\nnodes: 3\nlease: {start: +10h, for: 2h, on_end: delete}\n")
	if err := d.until(course, second.StartsAt.Add(time.Hour)); err == nil {
		t.Error("a reservation was extended into another one")
	}
}

func TestWhatFitsNowIsRefusedWithTheTimeFromWhenOn(t *testing.T) {
	d := newFixture(t, farm(3, 0)...).rules("")
	d.create("name: a\nnodes: 1\nlease: {for: 5h, on_end: delete}\n")
	_, err := d.plan("name: b\nnodes: 2\n")
	r := refusal(t, err, admission.NoCapacity, "class small: 3 asked, 1 free", "2 nodes fit from ")
	start := offered(r, admission.LaterStart).Start
	if start.Sub(d.now()) > 5*time.Hour || start.Sub(d.now()) < 4*time.Hour {
		t.Error(start)
	}
	_, err = d.plan("name: b\nnodes: 3\n")
	if never := offered(refusal(t, err, admission.NoCapacity), admission.LaterStart); never.Kind != "" {
		t.Error("4 of 3 machines will never fit: ", never)
	}
	d.create("name: b\nnodes: 2\nlease: {start: " + start.Format(time.RFC3339) + ", on_end: delete}\n")
}

func TestScalingUpLeavesReservedMachines(t *testing.T) {
	d := newFixture(t, farm(4, 0)...).rules("")
	a := d.create("name: a\nnodes: 1\n")
	d.create("name: course\nnodes: 1\nlease: {start: +8h, for: 2h, on_end: delete}\n")
	three := 3
	_, err := d.change(a, func(want *spec.Cluster) {
		want.Queues = []spec.Queue{want.Queues[0]}
		want.Queues[0].Min, want.Queues[0].Max = &three, &three
	})
	refusal(t, err, admission.NoCapacity, "cluster course would lack 2 machines")
}

func TestASitesRulesForLeases(t *testing.T) {
	d := newFixture(t, farm(4, 0)...).rules("leases: {default: 5d, max: 30d}\n")
	c := d.create("name: a\nnodes: 1\nlease: {on_end: delete}\n")
	if c.EndsAt.Sub(c.StartsAt) != 5*24*time.Hour || c.Spec.Lease.For != "5d" {
		t.Error(c.Term, c.Spec.Lease)
	}
	_, err := d.plan("name: b\nnodes: 1\nlease: {for: 31d, on_end: delete}\n")
	refusal(t, err, admission.Invalid, "lease.for", "the longest is for: 30d")
	if _, err := d.plan("name: b\nnodes: 1\nlease: {start: +3d, for: 30d, on_end: delete}\n"); err != nil {
		t.Error("the limit counts from the start:", err)
	}
	err = d.until(c, c.StartsAt.Add(31*24*time.Hour))
	refusal(t, err, admission.Invalid, "30d from now")
	if err := d.until(c, c.StartsAt.Add(30*24*time.Hour)); err != nil {
		t.Error(err)
	}

	_, err = d.plan("name: b\nnodes: 1\nlease: {start: 2020-01-01T08:00:00Z, on_end: delete}\n")
	refusal(t, err, admission.Invalid, "lease.start", "has passed")
	_, err = d.plan("name: b\nnodes: 1\n")
	refusal(t, err, admission.Invalid, "lease.on_end", "the head is machine", "on_end: delete")
	_, err = d.plan("name: b\nnodes: 1\nlease: {start: +1h}\n")
	refusal(t, err, admission.Invalid, "lease.on_end", "like all of class small")
}

func TestAFileThatSaysNothingOfTheLeaseLeavesItAsItIs(t *testing.T) {
	d := newFixture(t, farm(4, 0)...).rules("")
	c := d.create("name: a\nnodes: 1\nlease: {for: 5h, on_end: delete}\n")
	if err := d.until(c, c.StartsAt.Add(9*time.Hour)); err != nil {
		t.Fatal(err)
	}
	plan, err := d.change(c, func(want *spec.Cluster) { want.Lease = nil })
	if err != nil || len(plan.Changes) > 0 {
		t.Error(plan.Changes, err)
	}
	plan, err = d.change(c, func(want *spec.Cluster) { want.Lease = &spec.Lease{For: "6h"} })
	if err != nil || len(plan.Changes) != 1 || plan.Changes[0].Path != "lease.for" || plan.Changes[0].Effect != spec.Live {
		t.Error(plan.Changes, err)
	}
	if c, _ := d.cluster(c.ID); c.EndsAt.Sub(c.StartsAt) != 6*time.Hour || c.OnEnd() != core.ToDelete {
		t.Error(c.Term)
	}
	_, err = d.change(c, func(want *spec.Cluster) { want.Lease = &spec.Lease{Start: "+1h"} })
	refusal(t, err, admission.Invalid, "lease.start")
}

// Machines of a class that overlaps another: the plan takes those that the reservation can do without.
func TestMachinesThatAReservationNeedsAreTakenLast(t *testing.T) {
	d := newFixture(t, offer{"a-big", 64, "amd64", machine.Available, ""}, offer{"b", 4, "amd64", machine.Available, ""},
		offer{"c", 4, "amd64", machine.Available, ""})
	path := t.TempDir() + "/site.yaml"
	write(t, path, "site: home\ndefaults: {project: default, image: debian13-hpc, class: any, head_class: any}\nclasses:\n"+
		"  - {name: any, select: [\"cpus > 0\"], lead: 0s}\n  - {name: big, select: [\"cpus >= 64\"], lead: 0s}\n")
	catalogue, err := inventory.ReadCatalogue(path)
	if err != nil {
		t.Fatal(err)
	}
	d.Catalogue = catalogue
	d.create("name: later\nhead: {class: any}\nqueues: [{name: q, class: big, nodes: 1}]\nlease: {start: +5h, for: 1h, " +
		"on_end: delete}\n")
	plan, err := d.plan("name: now\nnodes: 1\nlease: {for: 1h, on_end: delete}\n")
	if err != nil || len(plan.Add) != 2 {
		t.Fatal(plan, err)
	}
	if plan.Add[0].Machine.Name != "a-big" && plan.Add[1].Machine.Name != "a-big" {
		t.Error("a lease that ends before is to take machines by their names:", plan.Add)
	}
	if _, err = d.plan("name: now\nnodes: 1\n"); err == nil {
		t.Error("the head of the reservation has no machine any more")
	}
	d.create("name: head\nqueues: [{name: q, class: any, nodes: 0}]\n")
	holder := ""
	if err := d.db.View(t.Context(), func(tx *core.Tx) error {
		machines, err := machine.List(t.Context(), tx)
		for _, m := range machines {
			if m.HolderName == "head/head" {
				holder = m.Name
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if holder != "b" {
		t.Errorf("the head is on %s, which the reservation needs", holder)
	}
}
