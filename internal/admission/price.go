package admission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/meter"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
	"muster/internal/price"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// pay holds a plan against quotas and budgets, and prices it: what the cluster costs an hour once it is ready.
func (a *Admission) pay(ctx context.Context, tx *core.Tx, plan *Plan, machines []machine.Machine) error {
	id, staying := "", map[string]node.Node{}
	if plan.current != nil {
		id = plan.current.ID
		nodes, err := node.Of(ctx, tx, id)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.Desired == core.Present && !n.Asleep() && !slices.ContainsFunc(plan.release, func(r node.Node) bool {
				return r.ID == n.ID
			}) {
				staying[n.ID] = n
			}
		}
	}
	_, over, err := a.room(ctx, tx, id, plan.Spec, plan.Add)
	if err != nil {
		return err
	}
	if over != nil {
		return over
	}
	add := slices.Clone(plan.Add)
	for _, m := range machines {
		if n, stays := staying[m.Holder]; stays {
			add = append(add, Placed{Name: n.Name, Role: n.Role, Queue: n.Queue, Class: n.Class, Machine: m.Machine})
		}
	}
	plan.all = add
	for _, p := range add {
		plan.Price = plan.Price.Plus(a.Catalogue.Rate(p.Class, p.Machine))
		if p.Role == protocol.Head && !a.caps(p.Machine).KeepsHead && plan.Spec.Budget != nil &&
			plan.Spec.Budget.OnLimit != spec.OnLimitWarn {
			return refuse(Conflict, "head-on-metal", "budget.on_limit",
				fmt.Sprintf("the cluster could not be paused at its budget's limit: the head is machine %s and keeps its "+
					"state in memory, where it would be lost", p.Machine.Name),
				"write on_limit: warn, or create the cluster with its head on a service host, as in `head: {class: service}`")
		}
	}
	most := 1
	for _, q := range plan.Spec.Queues {
		most += *q.Max
	}
	if quota := a.Catalogue.Projects[plan.Spec.Project].Quota.Nodes; quota != nil && most > *quota {
		plan.Messages = append(plan.Messages, fmt.Sprintf("it may grow to %s, which is more than the project's quota of %d",
			words.Count(most, "node"), *quota))
	}
	return a.foresee(ctx, tx, plan)
}

// foresee says what the plan's price comes to.
func (a *Admission) foresee(ctx context.Context, tx *core.Tx, plan *Plan) error {
	if plan.Price.Currency == "" {
		return nil
	}
	if storage := a.Catalogue.Tariff.Storage; storage.Currency != "" {
		plan.Messages = append(plan.Messages, fmt.Sprintf("/home costs %s per GiB and month in addition", storage))
	}
	if lease := plan.Spec.Lease; lease != nil && lease.For != "" {
		plan.Total = over(plan.Price, spec.Duration(lease.For))
	}
	if limit := budgetOf(plan.Spec); limit.Micros > 0 && plan.Price.Micros > 0 {
		left := limit.Micros
		if plan.current != nil {
			spent, err := meter.Spending(ctx, tx, meter.Of{Cluster: plan.current.ID})
			if err != nil {
				return err
			}
			left -= spent.Cost()[limit.Currency]
		}
		plan.Messages = append(plan.Messages,
			fmt.Sprintf("its budget of %s lasts for %s", limit, span(price.Lasting(left, plan.Price.Micros))))
	}
	return nil
}

// over is what a price per hour comes to in some time.
func over(p price.Amount, length time.Duration) price.Amount {
	group := price.Group{Kind: price.Node, Rate: p, Units: length.Milliseconds()}
	return price.Spending{group}.Cost().Of(p.Currency)
}

// budgetOf is a cluster's budget; a price of nothing if it has none.
func budgetOf(c spec.Cluster) price.Amount {
	if c.Budget == nil {
		return price.Amount{}
	}
	limit, _ := price.Parse(c.Budget.Limit) // the form was checked when it was read
	return limit
}

// span is a time as people plan with it: "6d 22h", "31m".
func span(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd %dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh %dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm %ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
