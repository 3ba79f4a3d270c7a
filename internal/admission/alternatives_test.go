package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

const alternatives = `
site: home
defaults: {project: default, image: debian13-hpc, class: big, head_class: service}
classes:
  - {name: big, select: ["cpus = 8"]}
  - {name: middle, select: ["cpus = 4"]}
  - {name: small, select: ["cpus = 2"]}
  - {name: service, select: ["cpus = 1"]}
`

func TestAQueueTakesItsNextClassWhenOneIsExhausted(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", alternatives,
		offer{"h1", 1, "amd64", machine.Available, ""}, offer{"b1", 8, "amd64", machine.Available, ""},
		offer{"b2", 8, "amd64", machine.Quarantined, ""},
		offer{"m1", 4, "amd64", machine.Available, ""}, offer{"s1", 2, "amd64", machine.Available, ""},
		offer{"s2", 2, "amd64", machine.Available, ""})
	plan, err := d.plan("name: cfd\nqueues: [{name: cpu, nodes: 3, class: big, or: [middle, small]}]\n")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, p := range plan.Add {
		got += p.Name + " " + p.Class + " " + p.Machine.Name + ", "
	}
	if got != "head service h1, cpu1 big b1, cpu2 middle m1, cpu3 small s1, " {
		t.Error(got)
	}

	_, err = d.plan("name: cfd\nqueues: [{name: cpu, nodes: 5, class: big, or: [middle, small]}]\n")
	refusal(t, err, admission.NoCapacity, "class big: 5 asked, 1 free, 1 quarantined", "instead, class small: 3 asked, 2 free")

	// Another queue that can be nothing else comes first.
	plan, err = d.plan("name: cfd\nqueues: [{name: cpu, nodes: 1, class: big, or: [small]}, {name: only, nodes: 1, class: " +
		"big}]\n")
	if err != nil || plan.Add[1].Class != "small" || plan.Add[2].Class != "big" {
		t.Error(plan, err)
	}

	_, err = d.plan("name: cfd\nqueues: [{name: cpu, nodes: 1, class: big, or: [smal]}]\n")
	if r := refusal(t, err, admission.Invalid, `there is no class "smal"`); r.Diagnostics[0].Path != "queues[0].or[0]" {
		t.Error(r.Diagnostics)
	}
}

// While a request is placed, no other transaction can write: one that is short of a class is not tried again for each of its
// nodes.
func TestAlternativesOfManyNodesAreTriedForAMoment(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", alternatives, offer{"h1", 1, "amd64", machine.Available, ""},
		offer{"m1", 4, "amd64", machine.Available, ""})
	file := "name: cfd\nqueues:\n- {name: only, nodes: 1, class: big}\n"
	for i := range 49 {
		file += fmt.Sprintf("- {name: q%dx, nodes: 1000, class: middle, or: [small]}\n", i)
	}
	within(t, func() {
		_, err := d.plan(file)
		refusal(t, err, admission.NoCapacity, "class big: 1 asked, 0 free")
	})
}

// Classes that are exhausted one after the other, and many machines to look at each time.
func TestQueuesThatAreExhaustedOneByOneAreTriedForAMoment(t *testing.T) {
	site := "site: home\ndefaults: {project: default, image: debian13-hpc, class: c0x, head_class: service}\nclasses:\n" +
		"  - {name: service, select: [\"cpus = 1\"]}\n"
	var or []string
	for i := range 40 {
		site += fmt.Sprintf("  - {name: c%dx, select: [\"cpus = %d\"]}\n", i, 100+i)
		or = append(or, fmt.Sprintf("c%dx", i))
	}
	machines := []offer{{"h1", 1, "amd64", machine.Available, ""}}
	for i := range 500 {
		machines = append(machines, offer{fmt.Sprintf("m%d", i), 2, "amd64", machine.Available, ""})
	}
	d := newFixtureAt(t, t.TempDir()+"/db", site, machines...)
	file := "name: cfd\nqueues:\n"
	for i := range 50 {
		turned := slices.Concat(or[i%len(or):], or[:i%len(or)])
		file += fmt.Sprintf("- {name: q%dx, nodes: 1, class: %s, or: [%s]}\n", i, turned[0], strings.Join(turned[1:11], ", "))
	}
	within(t, func() {
		_, err := d.plan(file)
		r := refusal(t, err, admission.NoCapacity, "asked, 0 free")
		if strings.Contains(r.Error(), "instead") {
			t.Error("it was tried to the end:", r)
		}
	})
}

// The same of queues that are to grow, every few seconds.
func TestNodesThatManyQueuesLackAreSearchedForInFewTries(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", alternatives, offer{"h1", 1, "amd64", machine.Available, ""},
		offer{"b1", 8, "amd64", machine.Available, ""}, offer{"b2", 8, "amd64", machine.Available, ""})
	file := "name: grow\nqueues:\n"
	for i := range 20 {
		file += fmt.Sprintf("- {name: q%dx, class: big, max: 1000}\n", i)
	}
	grow := d.create(file)
	grow.Targets = map[string]int{}
	for i := range 20 {
		grow.Targets[fmt.Sprintf("q%dx", i)] = 1000
	}
	within(t, func() {
		var placed []node.Node
		var refused error
		err := d.db.Update(t.Context(), func(tx *core.Tx) (err error) {
			placed, refused, err = d.Refill(t.Context(), tx, grow)
			return err
		})
		if err != nil || len(placed) != 2 || refused == nil || !strings.Contains(refused.Error(), "class big: 20000 more asked") {
			t.Error(len(placed), refused, err)
		}
	})
}

// within holds work to seconds of CPU time; one try for each node takes minutes.
func within(t *testing.T, work func()) {
	t.Helper()
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	work()
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		t.Fatal(err)
	}
	if took := time.Duration(after.Utime.Nano() - before.Utime.Nano()); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// A machine that a reservation needs is left to it, and the reservation may itself be of any of its classes.
func TestAlternativesAreInTheCalendar(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", alternatives,
		offer{"h1", 1, "amd64", machine.Available, ""}, offer{"h2", 1, "amd64", machine.Available, ""},
		offer{"h3", 1, "amd64", machine.Available, ""},
		offer{"b1", 8, "amd64", machine.Available, ""}, offer{"m1", 4, "amd64", machine.Available, ""})
	d.create("name: later\nlease: {start: +8h, for: 2h, on_end: delete}\nqueues: [{name: cpu, nodes: 1, class: big, or: " +
		"[middle]}]\n")
	now := d.create("name: now\nqueues: [{name: cpu, nodes: 1, class: big, or: [middle]}]\n")
	var nodes []node.Node
	if err := d.db.View(t.Context(), func(tx *core.Tx) (err error) {
		nodes, err = node.Of(t.Context(), tx, now.ID)
		return err
	}); err != nil || nodes[1].Class != "big" {
		t.Error(nodes, err)
	}
	_, err := d.plan("name: more\nqueues: [{name: cpu, nodes: 1, class: big, or: [middle]}]\n")
	if r := refusal(t, err, admission.NoCapacity, "cluster later would lack 1 machine"); len(r.Offers) == 0 {
		t.Error(r)
	}
}

// A queue that grows takes what no cluster has reserved; what it was promised, it gets in any case.
func TestAQueueDoesNotGrowIntoAReservation(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", alternatives,
		offer{"h1", 1, "amd64", machine.Available, ""}, offer{"h2", 1, "amd64", machine.Available, ""},
		offer{"b1", 8, "amd64", machine.Available, ""}, offer{"b2", 8, "amd64", machine.Available, ""},
		offer{"b3", 8, "amd64", machine.Available, ""})
	grow := d.create("name: grow\nqueues: [{name: cpu, class: big, max: 3}]\n")
	d.create("name: later\nlease: {start: +8h, for: 2h, on_end: delete}\nqueues: [{name: cpu, nodes: 2, class: big}]\n")
	grow.Targets = map[string]int{"cpu": 3}
	refill := func() (placed []node.Node, refused error) {
		err := d.db.Update(t.Context(), func(tx *core.Tx) (err error) {
			placed, refused, err = d.Refill(t.Context(), tx, grow)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return placed, refused
	}
	placed, refused := refill()
	if len(placed) != 1 || refused == nil || !strings.Contains(refused.Error(), "cluster later would lack") {
		t.Error(placed, refused)
	}
	three := 3
	grow.Spec.Queues[0].Min = &three
	if placed, _ := refill(); len(placed) != 2 {
		t.Error("its min is not kept:", placed)
	}
}
