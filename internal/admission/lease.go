package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kit/duration"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
	"muster/internal/place"
	"muster/internal/place/calendar"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// term plans when the lease runs. What a change says of it counts from the start that the cluster has.
func (a *Admission) term(now time.Time, plan *Plan, machines []machine.Machine) error {
	lease := *plan.Spec.Lease
	now = now.Truncate(time.Second) // as people write times
	t := cluster.Term{StartsAt: spec.Begin(lease, now).Truncate(time.Second)}
	switch {
	case plan.current != nil:
		t.StartsAt = plan.current.StartsAt
	case t.StartsAt.Before(now):
		return refuse(Invalid, "past", "lease.start", fmt.Sprintf("%s has passed: it is %s", spec.When(t.StartsAt),
			spec.When(now)), "write now, or a later time")
	}
	if lease.For != "" {
		t.EndsAt = t.StartsAt.Add(spec.Duration(lease.For))
	}
	type kind struct {
		role  protocol.Role
		class string
	}
	seen, all := map[kind]bool{}, plain(machines)
	members, _ := cluster.Cluster{Spec: plan.Spec}.Shape(nil)
	for _, m := range membersOf(plan.Spec, members) {
		class, ok := a.classOf(m, plan.Spec.Isolation)
		if ok && !seen[kind{m.Role, m.Class}] {
			t.Lead = max(t.Lead, inventory.LeadOf(class, all, func(m inventory.Machine) time.Duration { return a.caps(m).Lead }))
		}
		seen[kind{m.Role, m.Class}] = true
	}
	plan.Term = t
	if plan.current != nil && t.EndsAt.Equal(plan.current.EndsAt) {
		return nil
	}
	latest := now
	if t.StartsAt.After(now) {
		latest = t.StartsAt
	}
	latest = latest.Add(a.Catalogue.Leases.Max)
	switch {
	case a.Catalogue.Leases.Max > 0 && (t.EndsAt.IsZero() || t.EndsAt.After(latest)):
		return refuse(Invalid, "too-long", "lease.for",
			fmt.Sprintf("leases at this site may end at %s at the latest (%s from now)", spec.When(latest),
				duration.Text(a.Catalogue.Leases.Max)),
			"the longest is for: "+duration.Text(plainly(latest.Sub(t.StartsAt)))+"; extend it while it runs")
	case !t.EndsAt.IsZero() && !t.EndsAt.After(now):
		return refuse(Invalid, "past", "lease.for", fmt.Sprintf("its lease would have ended at %s", spec.When(t.EndsAt)),
			"write more than "+duration.Text(now.Sub(t.StartsAt)))
	}
	return nil
}

func plain(machines []machine.Machine) []inventory.Machine {
	all := make([]inventory.Machine, 0, len(machines))
	for _, m := range machines {
		all = append(all, m.Machine)
	}
	return all
}

// prolong refuses another end of a running lease that would take what others have reserved.
func (a *Admission) prolong(ctx context.Context, tx *core.Tx, plan *Plan, now time.Time, machines []machine.Machine) error {
	if plan.Term.EndsAt.Equal(plan.current.EndsAt) {
		return nil
	}
	c, err := a.Calendar(ctx, tx, now, machines, nil)
	if err != nil {
		return err
	}
	latest, conflict := c.Extend(plan.current.ID, plan.Term.Returned())
	if conflict == nil {
		return nil
	}
	hint := "its end cannot be moved"
	if end := latest.Add(-plan.Term.Lead).Truncate(time.Second); end.After(plan.current.EndsAt) {
		hint = fmt.Sprintf("until %s fits: `muster extend %s --until %s`", spec.When(end), plan.current.Name,
			end.Format(time.RFC3339))
	}
	text, err := hurt(ctx, tx, plan.Spec.Project, conflict)
	if err != nil {
		return err
	}
	end := "without end"
	if !plan.Term.EndsAt.IsZero() {
		end = "until " + spec.When(plan.Term.EndsAt)
	}
	return refuse(NoCapacity, "reserved", "lease.for", end+", "+text, hint)
}

// hurt says to a project whose booking a request of it would harm. What others own it is told without their names.
func hurt(ctx context.Context, tx *core.Tx, project string, conflict *calendar.Conflict) (string, error) {
	if conflict.Own > 0 {
		return words.Count(conflict.Own, "node") + " would be missing", nil
	}
	other, err := cluster.Get(ctx, tx, conflict.Hurts.By)
	if err != nil {
		return "", err
	}
	whose := "cluster " + other.Name
	if other.Project != project {
		whose = "another project's cluster"
	}
	return fmt.Sprintf("%s would lack %s that it has reserved from %s", whose, words.Count(conflict.Lacks, "machine"),
		spec.When(other.StartsAt)), nil
}

// find chooses machines for the members that are missing, and leaves to reservations what they will need. For a lease
// that starts later it only looks whether they will be there.
func (a *Admission) find(ctx context.Context, tx *core.Tx, plan *Plan, now time.Time, missing []member,
	machines []machine.Machine) ([]Placed, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	asks := cluster.Cluster{Term: plan.Term}
	if plan.current != nil {
		asks.ID = plan.current.ID
		if end := plan.Term.EndsAt; !end.IsZero() && !end.After(now) {
			return nil, refuse(Conflict, "lease-ended", "lease.for", fmt.Sprintf("its lease ended at %s", spec.When(end)),
				"`muster extend "+plan.current.Name+" --for 1d` first")
		}
	}
	c, err := a.Calendar(ctx, tx, now, machines, &asks)
	if err != nil {
		return nil, err
	}
	b := calendar.Booking{By: asks.ID, From: now, Until: plan.Term.Returned(),
		Wants: a.wants(missing, plan.Spec.Isolation, plan.image.Arch)}
	later := plan.Later(now)
	if i := slices.IndexFunc(missing, a.partly); later && i >= 0 {
		return nil, refuse(Invalid, "not-available", "lease.start",
			fmt.Sprintf("not available yet: reserving virtual machines, such as those of class %s, for a later time",
				missing[i].Class),
			"write start: now, or a class of whole machines")
	}
	if later {
		b.From = plan.Term.Begins()
	}
	looks := place.NewLooks(mostLooked)
	choose := func(members []member, machines []machine.Machine) ([]Placed, error) {
		return a.choose(members, machines, plan.Spec.Isolation, plan.image.Arch, plan.current != nil, looks)
	}
	var refusal *Refusal
	if !later {
		placed, err := choose(missing, machines)
		if err == nil && len(c.Bookings) == 0 {
			return placed, nil
		}
		if refusal, err = asRefusal(err); err != nil {
			return nil, err
		}
		if refusal == nil { // in the order of their classes, if no other cluster loses by it
			c := chosenFirst(c, missing, placed)
			exact := b
			exact.Wants = a.wants(as(missing, placed), plan.Spec.Isolation, plan.image.Arch)
			if given, conflict := c.Check(exact); conflict == nil {
				spared, err := choose(as(missing, placed), only(machines, given))
				return spared, wouldBecomeHypervisor(err, placed, missing, machines)
			}
		}
	}
	if refusal == nil {
		given, conflict := c.Check(b)
		switch {
		case conflict == nil && later:
			return nil, nil
		case conflict == nil:
			return choose(missing, only(machines, given))
		}
		text, err := hurt(ctx, tx, plan.Spec.Project, conflict)
		if err != nil {
			return nil, err
		}
		if later {
			text = "from " + spec.When(plan.Term.StartsAt) + ", " + text
		}
		refusal = refuse(NoCapacity, "reserved", missing[len(missing)-1].path, text, "")
		refusal.lacks = conflict.Own + conflict.Lacks // one of them
	}
	if refusal.Kind == NoCapacity && !slices.ContainsFunc(missing, a.partly) { // of guests the calendar knows nothing
		a.whenElse(refusal, plan, c, b, now, missing)
	}
	return nil, refusal
}

// whenElse adds to a refusal what would work: a later start, or a shorter lease.
func (a *Admission) whenElse(r *Refusal, plan *Plan, c calendar.Calendar, b calendar.Booking, now time.Time, missing []member) {
	if until, ok := c.Longest(b); ok && !until.Equal(b.Until) {
		end := until.Add(-plan.Term.Lead)
		if length := roundDown(end.Sub(plan.Term.StartsAt)); length > 0 {
			r.offer(Offer{Kind: ShorterLease, For: length,
				Text: fmt.Sprintf("a lease until %s fits: lease: {for: %s}", spec.When(end), duration.Text(length))})
		}
	}
	if plan.current != nil {
		return // a cluster that runs starts no second time
	}
	if !plan.Later(now) { // as a reservation it would begin its lead before its start
		b.Until = plan.Term.Returned()
		if !b.Until.IsZero() {
			b.Until = b.Until.Add(plan.Term.Lead)
		}
	}
	from, ok := c.First(b)
	if !ok || !from.After(b.From) { // it is not for what others have that they are missing
		return
	}
	start := from.Add(plan.Term.Lead)
	if whole := start.Truncate(time.Second); whole.Before(start) {
		start = whole.Add(time.Second)
	}
	if !start.After(now) || start.Equal(plan.Term.StartsAt) {
		return
	}
	nodes := 0
	for _, m := range missing {
		if m.Role == protocol.Compute {
			nodes++
		}
	}
	r.offer(Offer{Kind: LaterStart, Start: start, Text: fmt.Sprintf("%s %s from %s: lease: {start: %s}",
		words.Count(nodes, "node"), fit(nodes), spec.When(start), start.Format(time.RFC3339))})
}

// roundDown makes a length that fits now one that people write, and that fits in a minute, too.
func roundDown(length time.Duration) time.Duration {
	return plainly(length - min(time.Minute, length/10))
}

// plainly cuts a length to units that people write.
func plainly(length time.Duration) time.Duration {
	unit := time.Second
	switch {
	case length >= 4*time.Hour:
		unit = time.Hour
	case length >= 10*time.Minute:
		unit = time.Minute
	}
	return length.Truncate(unit)
}

// endable refuses a lease that is to end in a pause where none is possible: then it would never end.
func (a *Admission) endable(ctx context.Context, tx *core.Tx, plan *Plan, machines []machine.Machine) error {
	if plan.Term.EndsAt.IsZero() || plan.Spec.Lease.OnEnd != spec.OnEndPause {
		return nil
	}
	on := ""
	for _, p := range plan.Add {
		if p.Role == protocol.Head && !a.caps(p.Machine).KeepsHead {
			on = "machine " + p.Machine.Name
		}
	}
	class, _ := a.Catalogue.Find(plan.Spec.Head.Class)
	fits := func(m machine.Machine) bool { return class.Has(m.Machine) }
	keeps := func(m machine.Machine) bool { return fits(m) && a.caps(m.Machine).KeepsHead }
	switch {
	case plan.current != nil:
		if at, err := a.losesHead(ctx, tx, *plan.current); err != nil {
			return err
		} else if at != "" {
			on = "machine " + at
		}
	case len(plan.Add) == 0 && slices.ContainsFunc(machines, fits) && !slices.ContainsFunc(machines, keeps): // a reservation
		on = "a whole machine, like all of class " + class.Name
	}
	if on == "" {
		return nil
	}
	return refuse(Invalid, "head-on-metal", "lease.on_end",
		fmt.Sprintf("the cluster could not be paused at the end of its lease: the head is %s and keeps its state in memory, "+
			"where it would be lost", on),
		"write on_end: delete, or create the cluster with its head on a service host, as `head: {class: service}`")
}

// Foresee says what a cluster that starts later will lack at its start, as things stand; "" for nothing.
func (a *Admission) Foresee(ctx context.Context, tx *core.Tx, c cluster.Cluster) (string, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return "", err
	}
	machines, err := machine.List(ctx, tx)
	if err != nil {
		return "", err
	}
	cal, err := a.Calendar(ctx, tx, now, machines, nil)
	if err != nil {
		return "", err
	}
	for i, lacks := range cal.Lacking() {
		if cal.Bookings[i].By == c.ID && lacks > 0 {
			return fmt.Sprintf("at present, %s would be missing at its start", words.Count(lacks, "machine")), nil
		}
	}
	return "", nil
}

// prefer leaves, of the machines for nodes that a running cluster lacks, those that reservations need, where there are others.
// Who runs goes first: what a node that has failed took with it is missed now, and until a reservation starts its machine may
// be back. But nodes above the min of a queue that grows were not promised: they stay out, and refused says why.
func (a *Admission) prefer(ctx context.Context, tx *core.Tx, c cluster.Cluster, missing []member,
	machines []machine.Machine) (kept []member, left []machine.Machine, refused *Refusal, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	cal, err := a.Calendar(ctx, tx, now, machines, &c)
	if err != nil || len(cal.Bookings) == 0 {
		return missing, machines, nil, err
	}
	kept = slices.Clone(missing)
	choose := func() ([]Placed, error) {
		return a.choose(kept, machines, c.Spec.Isolation, "", true, place.NewLooks(lookedEach))
	}
	if placed, err := choose(); err == nil {
		cal = chosenFirst(cal, kept, placed)
	}
	check := func(members []member) ([]inventory.Machine, *calendar.Conflict) {
		return cal.Check(calendar.Booking{By: c.ID, From: now, Until: c.Returned(),
			Wants: a.wants(members, c.Spec.Isolation, "")})
	}
	given, conflict := check(kept)
	if conflict != nil {
		if conflict.Own == 0 {
			text, err := hurt(ctx, tx, c.Project, conflict)
			if err != nil {
				return nil, nil, nil, err
			}
			refused = refuse(NoCapacity, "reserved", kept[len(kept)-1].path, text, "")
		}
		all, above := kept, 0
		for _, m := range all {
			if m.above {
				above++
			}
		}
		if above == 0 {
			return kept, machines, refused, nil
		}
		if refused == nil { // too few machines, reserved or not
			_, short := choose()
			if refused, err = asRefusal(short); err != nil {
				return nil, nil, nil, err
			}
		}
		fit := sort.Search(above-1, func(i int) bool {
			_, conflict := check(firstAbove(all, i+1))
			return conflict != nil
		})
		if kept = firstAbove(all, fit); len(kept) == 0 {
			return nil, machines, refused, nil
		}
		if given, conflict = check(kept); conflict != nil {
			return kept, machines, refused, nil
		}
	}
	if slices.ContainsFunc(kept, a.partly) {
		return kept, machines, refused, nil // for whose guests any machine may become a hypervisor
	}
	return kept, only(machines, given), refused, nil
}

// firstAbove are members without those above the min of their queues, but for the first so many of these.
func firstAbove(members []member, most int) (kept []member) {
	for _, m := range members {
		if m.above {
			if most--; most < 0 {
				continue
			}
		}
		kept = append(kept, m)
	}
	return kept
}

// only leaves those free machines that were given; the others are told of in a shortage.
func only(machines []machine.Machine, given []inventory.Machine) []machine.Machine {
	chosen := lists.SetBy(given, func(m inventory.Machine) string { return m.ID })
	return slices.DeleteFunc(slices.Clone(machines), func(m machine.Machine) bool { return m.Free() && !chosen[m.ID] })
}

// kept is the lease that a changed file means: what it does not say stays as it is, so that a file without a lease does
// not undo an extension.
func kept(current, written *spec.Lease) *spec.Lease {
	if written == nil || current == nil {
		return current
	}
	lease := *written
	lease.Start, lease.For, lease.OnEnd = cmp.Or(lease.Start, current.Start), cmp.Or(lease.For, current.For),
		cmp.Or(lease.OnEnd, current.OnEnd)
	return &lease
}

// compute is how many nodes besides the head the plan's file wants at least.
func (p *Plan) compute() int {
	nodes := 0
	for _, q := range p.Spec.Queues {
		nodes += *q.Min
	}
	return nodes
}

// Later says whether the lease begins at a time to come: then the plan reserves, and starts nothing.
func (p *Plan) Later(now time.Time) bool { return p.Term.Begins().After(now) }

// Prolonged is a cluster's file with another end of its lease.
func Prolonged(c cluster.Cluster, until time.Time) spec.Cluster {
	want := c.Spec
	lease := *c.Spec.Lease
	lease.For = duration.Text(until.Sub(c.StartsAt))
	want.Lease = &lease
	return want
}
