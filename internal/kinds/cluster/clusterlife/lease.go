package clusterlife

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/duration"
	"muster/internal/spec"
)

// reservationLooks is how often a cluster that is to come looks whether there will be machines for it.
const reservationLooks = 30 * time.Second

// underLeases is underLease for every phase in which a cluster has a lease to end.
func (w Handlers) underLeases(phases map[core.Phase]core.Handler[clusterView]) map[core.Phase]core.Handler[clusterView] {
	for name, p := range phases {
		if name != core.Deleting {
			p.Do = w.underLease(p.Do)
			phases[name] = p
		}
	}
	return phases
}

// underLease adds to a phase what the cluster's lease asks for: warnings before its end, and the end. The end is intent, as
// if its owner had asked for it in this moment.
func (w Handlers) underLease(handle func(context.Context,
	clusterView) core.Outcome) func(context.Context, clusterView) core.Outcome {
	return func(ctx context.Context, c clusterView) core.Outcome {
		o := handle(ctx, c)
		if c.EndsAt.IsZero() || c.Desired == core.ToDelete || c.Desired == c.OnEnd() {
			return o
		}
		left := c.EndsAt.Sub(c.now)
		if left <= 0 {
			return o.With(func(ctx context.Context, tx *core.Tx) error { return endLease(ctx, tx, c.ID) })
		}
		warn, next := c.warnings(w.Catalogue.Leases.Warn, left)
		if warn > 0 {
			o = o.With(func(ctx context.Context, tx *core.Tx) error {
				tx.Log(c.leaseEvent("its lease ends within " + duration.Text(warn) + ", at " + spec.When(c.EndsAt) +
					": then it " + endWords(c.OnEnd()) +
					" (`muster extend " + c.Name + " --for 1d` moves its end)"))
				return cluster.NoteWarning(ctx, tx, c.ID, warn)
			})
		}
		return o.Within(next)
	}
}

// warnings says which warning is due now, if any, and how long it is until the next one or the end. A lease that is not
// longer than a warning's time never gets that one: its owner knows.
func (c clusterView) warnings(all []time.Duration, left time.Duration) (due, next time.Duration) {
	next = left
	for _, before := range all { // the longest first
		switch {
		case before >= c.EndsAt.Sub(c.StartsAt):
		case left <= before:
			due = before
		default:
			next = min(next, left-before)
		}
	}
	if c.Warned != 0 && due >= c.Warned {
		due = 0
	}
	return due, next
}

// endLease asks for what happens at the end, unless the end has been moved meanwhile.
func endLease(ctx context.Context, tx *core.Tx, id string) error {
	c, err := cluster.Get(ctx, tx, id)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil || c.EndsAt.IsZero() || c.EndsAt.After(now) || c.Desired == core.ToDelete || c.Desired == c.OnEnd() {
		return err
	}
	tx.Log(clusterView{Cluster: c}.leaseEvent("its lease has ended: it " + endWords(c.OnEnd())))
	if c.OnEnd() == core.ToDelete {
		return cluster.WantDeleted(ctx, tx, id)
	}
	return cluster.WantPaused(ctx, tx, id)
}

func (c clusterView) leaseEvent(text string) core.Event {
	return core.Event{Type: "cluster.lease", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Text: text}
}

func endWords(end core.Desired) string {
	if end == core.ToDelete {
		return "is deleted"
	}
	return "pauses"
}

// awaitStart is for a lease that begins later. Until then the cluster is a row; the calendar keeps its machines free.
func (w Handlers) awaitStart(ctx context.Context, c clusterView) core.Outcome {
	short := ""
	err := w.DB.View(core.Apart(ctx), func(tx *core.Tx) (err error) {
		short, err = w.Admission.Foresee(ctx, tx, c.Cluster)
		return err
	})
	if err != nil {
		return core.Retry(err)
	}
	return core.WaitFor(min(reservationLooks, c.Begins().Sub(c.now)+time.Millisecond), "starts %s", spec.When(c.StartsAt)).
		With(func(ctx context.Context, tx *core.Tx) error {
			return cluster.SetShortage(ctx, tx, c.Cluster, short)
		})
}

// overdue says that a cluster which was reserved has started without all its nodes: it comes as far as it can.
func (c clusterView) overdue() bool {
	return c.Reached == 0 && c.Short != "" && c.StartsAt.After(c.CreatedAt) && c.now.After(c.StartsAt)
}
