package admission

import (
	"context"
	"fmt"

	"muster/internal/core"
	"muster/internal/kinds/meter"
	"muster/internal/price"
	"muster/internal/spec"
)

// ClusterLimits are those that the cluster's own file sets.
func (a *Admission) ClusterLimits(ctx context.Context, tx *core.Tx, id string, c spec.Cluster) ([]price.Limit, error) {
	budget := budgetOf(c)
	if budget.Micros == 0 || id == "" {
		return nil, nil
	}
	spent, err := meter.Spending(ctx, tx, meter.Of{Cluster: id})
	if err != nil {
		return nil, err
	}
	return []price.Limit{price.BudgetLimit("budget", budget, spent, c.Budget.OnLimit != spec.OnLimitWarn)}, nil
}

// ProjectLimits are those that the site sets a project for the running month.
func (a *Admission) ProjectLimits(ctx context.Context, tx *core.Tx, project string) ([]price.Limit, error) {
	return a.limitsAfter(ctx, tx, project, nil)
}

// limitsAfter are those of a project where a plan is carried out, if there is one.
func (a *Admission) limitsAfter(ctx context.Context, tx *core.Tx, project string, plan *Plan) ([]price.Limit, error) {
	granted := a.Catalogue.Projects[project]
	if granted.Budget.Monthly.Currency == "" && granted.Quota.NodeHours == nil {
		return nil, nil
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, _ := price.Month(now)
	spent, err := meter.Spending(ctx, tx, meter.Of{Projects: []string{project}, From: from})
	if err != nil {
		return nil, err
	}
	if plan != nil {
		if plan.current != nil {
			own, err := meter.Spending(ctx, tx, meter.Of{Cluster: plan.current.ID, From: from})
			if err != nil {
				return nil, err
			}
			spent.StopNodes(own)
		}
		for _, p := range plan.all {
			spent = append(spent, price.Group{Kind: price.Node, Rate: a.Catalogue.Rate(p.Class, p.Machine), Running: 1})
		}
	}
	month := from.Format("2006-01")
	var limits []price.Limit
	if granted.Budget.Monthly.Currency != "" {
		limits = append(limits, price.BudgetLimit("budget for "+month, granted.Budget.Monthly, spent, !granted.Budget.Warn))
	}
	if granted.Quota.NodeHours != nil {
		limits = append(limits, price.NodeHourLimit("node-hours of "+month, *granted.Quota.NodeHours, spent))
	}
	return limits, nil
}

// spendable refuses when a limit that pauses clusters is reached: what came now would be paused again at once.
func (a *Admission) spendable(ctx context.Context, tx *core.Tx, id string, c spec.Cluster) (*Refusal, error) {
	own, err := a.ClusterLimits(ctx, tx, id, c)
	if err != nil {
		return nil, err
	}
	for _, l := range own {
		if l.Reached() && l.Pauses {
			return refuse(OverBudget, "over-budget", "budget.limit", fmt.Sprintf("cluster %s has used its budget: %s", c.Name, l),
				"raise budget.limit in its file and `muster apply` it"), nil
		}
	}
	all, err := a.ProjectLimits(ctx, tx, c.Project)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.Reached() && l.Pauses {
			kind := OverBudget
			if l.Hours {
				kind = OverQuota
			}
			return refuse(kind, "over-limit", "", fmt.Sprintf("project %s has used its %s: %s", c.Project, l.What, l),
				"it starts again next month; operators set the limit"), nil
		}
	}
	return nil, nil
}
