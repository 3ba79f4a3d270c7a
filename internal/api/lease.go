package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kit/duration"
	"muster/internal/spec"
)

func leaseView(c cluster.Cluster) apiv1.Term {
	return apiv1.Term{StartsAt: c.StartsAt, EndsAt: c.EndsAt, OnEnd: apiv1.Desired(c.OnEnd())}
}

func (a *API) extendCluster(ctx context.Context, in *apiv1.ExtendClusterInput) (*output[apiv1.Answer], error) {
	return a.carryOut(ctx, in.Request, nil, request("extend", in.Cluster, in.Body.For, in.Body.Until),
		func(ctx context.Context, tx *core.Tx) (*admission.Plan, error) {
			current, err := a.find(ctx, tx, in.Cluster)
			if err != nil {
				return nil, err
			}
			return a.changed(ctx, tx, current, func(current cluster.Cluster) (*admission.Plan, error) {
				now, err := tx.Now(ctx)
				if err != nil {
					return nil, err
				}
				until, err := newEnd(in.Body, current, now)
				if err != nil {
					return nil, err
				}
				return a.Admission.Change(ctx, tx, current, admission.Prolonged(current, until))
			})
		})
}

// newEnd is the new end that is asked for.
func newEnd(in apiv1.ExtendClusterBody, c cluster.Cluster, now time.Time) (time.Time, error) {
	if (in.For == "") == (in.Until == "") {
		return time.Time{}, invalid("give either for or until", "as in for: 2d, or until: 2027-03-01T08:00:00Z")
	}
	if c.EndsAt.IsZero() {
		return time.Time{}, invalid(fmt.Sprintf("the lease of cluster %s has no end", c.Name), "there is nothing to extend")
	}
	if in.For != "" {
		more, err := duration.Within(in.For, time.Second, duration.Longest)
		if err != nil {
			return time.Time{}, badDuration("for", err)
		}
		from := c.EndsAt
		if now.After(from) {
			from = now.Truncate(time.Second)
		}
		return from.Add(more), nil
	}
	until, err := spec.Time(in.Until, now)
	if err != nil {
		return time.Time{}, invalid("until: "+err.Error(), "")
	}
	if !until.After(c.EndsAt) {
		return time.Time{}, invalid(fmt.Sprintf("the lease of cluster %s runs until %s as it is", c.Name, spec.When(c.EndsAt)),
			"to end it earlier, write a shorter lease.for in its file and `muster apply` it")
	}
	return until.Truncate(time.Second), nil
}

// week is what a calendar shows unless it is told otherwise.
const week = 7 * 24 * time.Hour

func (a *API) getCalendar(ctx context.Context, in *apiv1.GetCalendarInput) (*output[apiv1.Calendar], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Calendar) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		from, until, err := span(in, now)
		if err != nil {
			return err
		}
		classes := a.Admission.Catalogue.Classes
		if in.Class != "" {
			class, ok := a.Admission.Catalogue.Find(in.Class)
			if !ok {
				return noClass(in.Class)
			}
			classes = []inventory.Class{class}
		}
		*out, err = a.calendarView(ctx, tx, now, classes, from, until)
		return err
	})
}

func span(in *apiv1.GetCalendarInput, now time.Time) (from, until time.Time, err error) {
	if from, err = spec.Time(cmp.Or(in.From, spec.Now), now); err != nil {
		return from, until, invalid("from: "+err.Error(), "")
	}
	if from.Before(now) { // what was is in the events
		from = now
	}
	until = from.Add(week)
	if in.To != "" {
		if until, err = spec.Time(in.To, now); err != nil {
			return from, until, invalid("to: "+err.Error(), "")
		}
	}
	if !until.After(from) {
		return from, until, invalid(fmt.Sprintf("to: %s is not after %s", spec.When(until), spec.When(from)),
			"the calendar shows what is to come")
	}
	return from, until, nil
}

func (a *API) calendarView(ctx context.Context, tx *core.Tx, now time.Time, classes []inventory.Class, from,
	until time.Time) (apiv1.Calendar, error) {
	view := apiv1.Calendar{Now: now, From: from, Until: until, Classes: []apiv1.ClassCalendar{}}
	machines, err := machine.List(ctx, tx)
	if err != nil {
		return view, err
	}
	c, err := a.Admission.Calendar(ctx, tx, now, machines, nil)
	if err != nil {
		return view, err
	}
	clusters, err := cluster.List(ctx, tx, "")
	if err != nil {
		return view, err
	}
	shares := map[string]apiv1.CalendarShare{} // by the cluster's ID
	for _, c := range clusters {
		shares[c.ID] = apiv1.CalendarShare{Cluster: "(another project's)"}
		if sees(ctx, c.Project) {
			shares[c.ID] = apiv1.CalendarShare{Cluster: c.Name, ClusterID: c.ID, Project: c.Project}
		}
	}
	for i, slots := range c.Table(classes, from, until) {
		one := apiv1.ClassCalendar{Name: classes[i].Name, Slots: []apiv1.Slot{}}
		for _, s := range slots {
			slot := apiv1.Slot{From: s.From, Until: s.Until, Free: s.Free, Held: s.Held, Reserved: s.Reserved,
				By: []apiv1.CalendarShare{}}
			for _, share := range s.By {
				by := shares[share.By]
				by.Cluster, by.Machines, by.Reserved = cmp.Or(by.Cluster, share.By), share.Machines, share.Reserved
				slot.By = append(slot.By, by)
			}
			slices.SortStableFunc(slot.By, func(x, y apiv1.CalendarShare) int { return cmp.Compare(x.Cluster, y.Cluster) })
			one.Machines = s.Free + s.Held + s.Reserved
			one.Slots = append(one.Slots, slot)
		}
		view.Classes = append(view.Classes, one)
		view.Until = slots[len(slots)-1].Until // earlier than it was asked for, where very much changes
	}
	return view, nil
}
