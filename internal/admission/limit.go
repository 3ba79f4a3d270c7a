package admission

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/meter"
	"muster/internal/price"
	"muster/internal/spec"
)

// Limit is a budget, or a quota of node-hours, with what is used of it. Time uses both up, so they are watched.
type Limit struct {
	Kind    Kind   // of the refusal when it is reached
	What    string // "budget", "budget for 2026-11", "node-hours of 2026-11"
	Used    string // "412.50 EUR", "96.4 h"
	Limit   string // "500.00 EUR", "100 h"
	Percent int    // used; 100 when it is reached
	Left    time.Duration
	Runs    bool // it is being used: Left says for how long it lasts at this rate
	Pauses  bool // clusters pause when it is reached
}

// Reached says that nothing is left.
func (l Limit) Reached() bool { return l.Percent >= 100 }

// String is "412.50 EUR of 500.00 EUR (82 %)".
func (l Limit) String() string { return fmt.Sprintf("%s of %s (%d %%)", l.Used, l.Limit, l.Percent) }

// ClusterLimits are those that the cluster's own file sets.
func (a *Admission) ClusterLimits(ctx context.Context, tx *core.Tx, id string, c spec.Cluster) ([]Limit, error) {
	budget := budgetOf(c)
	if budget.Micros == 0 || id == "" {
		return nil, nil
	}
	spent, err := meter.Spending(ctx, tx, meter.Of{Cluster: id})
	if err != nil {
		return nil, err
	}
	return []Limit{money("budget", budget, spent, c.Budget.OnLimit != spec.OnLimitWarn)}, nil
}

// ProjectLimits are those that the site sets a project for the running month.
func (a *Admission) ProjectLimits(ctx context.Context, tx *core.Tx, project string) ([]Limit, error) {
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
	month := from.Format("2006-01")
	var limits []Limit
	if granted.Budget.Monthly.Currency != "" {
		limits = append(limits, money("budget for "+month, granted.Budget.Monthly, spent, !granted.Budget.Warn))
	}
	if granted.Quota.NodeHours != nil {
		limits = append(limits, nodeHours("node-hours of "+month, *granted.Quota.NodeHours, spent))
	}
	return limits, nil
}

func money(what string, limit price.Amount, spent price.Spending, pauses bool) Limit {
	used, rate := spent.Cost()[limit.Currency], spent.PerHour()[limit.Currency]
	l := Limit{Kind: OverBudget, What: what, Used: price.Amount{Micros: used, Currency: limit.Currency}.String(),
		Limit: limit.String(), Percent: percent(used, limit.Micros), Pauses: pauses}
	if l.Runs = rate > 0; l.Runs {
		l.Left = until(limit.Micros-used, rate)
	}
	return l
}

func nodeHours(what string, hours int, spent price.Spending) Limit {
	used, running := spent.NodeTime()
	limit := time.Duration(hours) * time.Hour
	l := Limit{Kind: OverQuota, What: what, Used: fmt.Sprintf("%.2f h", used.Hours()), Limit: fmt.Sprintf("%d h", hours),
		Percent: percent(int64(used), int64(limit)), Pauses: true}
	if l.Runs = running > 0; l.Runs {
		l.Left = max(limit-used, 0) / time.Duration(running)
	}
	return l
}

// percent is how much of a limit is used, rounded down so that 100 is all of it.
func percent(used, limit int64) int {
	if limit <= 0 {
		return 100
	}
	if used <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(used), 100)
	if high >= uint64(limit) {
		return 1 << 30
	}
	whole, _ := bits.Div64(high, low, uint64(limit))
	return int(min(whole, 1<<30))
}

// spendable refuses when a limit that pauses clusters is reached: what came now would be paused again at once.
func (a *Admission) spendable(ctx context.Context, tx *core.Tx, id string, c spec.Cluster) (*Refusal, error) {
	own, err := a.ClusterLimits(ctx, tx, id, c)
	if err != nil {
		return nil, err
	}
	for _, l := range own {
		if l.Reached() && l.Pauses {
			return refuse(l.Kind, "over-budget", "budget.limit", fmt.Sprintf("cluster %s has used its budget: %s", c.Name, l),
				"raise budget.limit in its file and `muster apply` it"), nil
		}
	}
	all, err := a.ProjectLimits(ctx, tx, c.Project)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.Reached() && l.Pauses {
			return refuse(l.Kind, "over-limit", "", fmt.Sprintf("project %s has used its %s: %s", c.Project, l.What, l),
				"it starts again next month; operators set the limit"), nil
		}
	}
	return nil, nil
}
