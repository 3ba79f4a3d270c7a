package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/meter"
	"muster/internal/kinds/person"
	"muster/internal/price"
)

// between is the window with both ends; what is still to come is not in it.
func between(w apiv1.Window, from, now time.Time) (time.Time, time.Time, error) {
	to := now
	if !w.From.IsZero() {
		from = w.From
	}
	if !w.To.IsZero() && w.To.Before(now) {
		to = w.To
	}
	if from.After(now) || !w.From.IsZero() && !w.To.IsZero() && !w.To.After(w.From) {
		return from, to, invalid(fmt.Sprintf("from %s to %s is not in the past", from.Format(time.RFC3339),
			to.Format(time.RFC3339)), "from must be before to, and in the past")
	}
	return from, to, nil
}

func (a *API) clusterCost(ctx context.Context, in *apiv1.GetClusterCostInput) (*output[apiv1.Cost], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Cost) error {
		c, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		from, to, err := between(in.Window, c.CreatedAt, now)
		if err != nil {
			return err
		}
		lines, err := linesOf(ctx, tx, meter.Of{Cluster: c.ID, From: from, To: to}, price.By(in.By))
		if err != nil {
			return err
		}
		charged, err := meter.Spending(ctx, tx, meter.Of{Cluster: c.ID})
		if err != nil {
			return err
		}
		limits, err := a.Admission.ClusterLimits(ctx, tx, c.ID, c.Spec)
		*out = apiv1.Cost{
			Cluster: c.Name, ClusterID: c.ID, Project: c.Project, From: from, To: to, Total: price.Total(lines).
					String(), PerHour: charged.PerHour().String(),
			Limits: some(each(limits, limitView)), Lines: some(each(lines, lineView)),
		}
		return err
	})
}

func (a *API) statement(ctx context.Context, in *apiv1.GetUsageInput) (*output[apiv1.Statement], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Statement) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		month, _ := price.Month(now)
		from, to, err := between(in.Window, month, now)
		if err != nil {
			return err
		}
		of := meter.Of{Projects: visible(ctx), From: from, To: to}
		if in.Project != "" {
			if !sees(ctx, in.Project) {
				return fmt.Errorf("project %s: %w", in.Project, core.ErrNotFound)
			}
			of.Projects = []string{in.Project}
		}
		lines, err := linesOf(ctx, tx, of, price.By(in.By))
		if err != nil {
			return err
		}
		*out = apiv1.Statement{Site: a.Admission.Catalogue.Site, Project: in.Project, From: from, To: to,
			Total: price.Total(lines).String(), Lines: some(each(lines, lineView))}
		for _, l := range lines {
			if l.Kind == price.Node {
				out.NodeHours += l.Charged.Hours()
			}
		}
		return nil
	})
}

func (a *API) quota(ctx context.Context, in *apiv1.GetQuotaInput) (*output[apiv1.Quota], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Quota) error {
		if _, err := person.GetProject(ctx, tx, in.Project); err != nil {
			return err
		}
		if err := permit(ctx, in.Project, "project "+in.Project); err != nil {
			return err
		}
		use, err := a.Admission.InUse(ctx, tx, in.Project)
		if err != nil {
			return err
		}
		limits, err := a.Admission.ProjectLimits(ctx, tx, in.Project)
		if err != nil {
			return err
		}
		clusters, err := cluster.Count(ctx, tx, in.Project)
		*out = a.quotaView(in.Project, clusters, use, limits)
		return err
	})
}

// quotaAfter is what a plan leaves of its project's quota.
func (a *API) quotaAfter(ctx context.Context, tx *core.Tx, p *admission.Plan) (*apiv1.Quota, error) {
	use, limits, ok, err := a.Admission.After(ctx, tx, p)
	if err != nil || !ok {
		return nil, err
	}
	clusters, err := cluster.Count(ctx, tx, p.Spec.Project)
	if p.Current() == nil {
		clusters++
	}
	return new(a.quotaView(p.Spec.Project, clusters, use, limits)), err
}

func (a *API) quotaView(project string, clusters int, use admission.Use, limits []price.Limit) apiv1.Quota {
	granted := a.Admission.Catalogue.Projects[project].Quota
	return apiv1.Quota{
		Project: project, Clusters: apiv1.Share{Used: clusters, Limit: new(granted.MostClusters())},
		Nodes: apiv1.Share{Used: use.Nodes, Limit: granted.Nodes},
		Cores: apiv1.Share{Used: use.Cores, Limit: granted.Cores}, GPUs: apiv1.Share{Used: use.GPUs, Limit: granted.GPUs},
		Limits: some(each(limits, limitView)),
	}
}

func linesOf(ctx context.Context, tx *core.Tx, of meter.Of, by price.By) ([]price.Line, error) {
	sheet := &price.Sheet{From: of.From, To: of.To, By: by}
	err := meter.Each(ctx, tx, of, sheet.Add)
	if errors.Is(err, price.ErrManyLines) {
		text := fmt.Sprintf("it would have more than %d lines", price.MostLines)
		return nil, invalid(text, "ask for a shorter time, or by queue")
	}
	return sheet.Lines(), err
}

func lineView(l price.Line) apiv1.UsageLine {
	view := apiv1.UsageLine{
		Kind: apiv1.UsageKind(l.Kind), Project: l.Project, Cluster: l.Cluster, ClusterID: l.ClusterID, Node: l.Node,
		Queue: l.Queue, Class: l.Class, Machine: l.Machine, Nodes: l.Nodes, From: l.From, To: l.To,
		Seconds: map[string]float64{}, ChargedSeconds: seconds(l.Charged), GiBMonths: l.GiBMonths,
		Rate: l.Rate.String(), Cost: l.Cost.String(),
	}
	for state, length := range l.Time {
		view.Seconds[string(state)] = seconds(length)
	}
	return view
}

// seconds is exact to the millisecond, also as a decimal number.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

func limitView(l price.Limit) apiv1.Limit {
	view := apiv1.Limit{What: l.What, Used: l.Used, Limit: l.Limit, Percent: l.Percent, Pauses: l.Pauses}
	if l.Runs {
		view.LeftSeconds = l.Left.Round(time.Second).Seconds()
	}
	return view
}

// money fills in what a cluster costs.
func (a *API) money(ctx context.Context, tx *core.Tx, view *apiv1.Cluster) error {
	open, err := meter.Rows(ctx, tx, meter.Of{Cluster: view.ID, Open: true})
	if err != nil {
		return err
	}
	whole := price.Sum{}
	for _, r := range open {
		if r.Kind == price.Node {
			whole.Add(r.Rate)
		}
	}
	charged, err := meter.Spending(ctx, tx, meter.Of{Cluster: view.ID})
	if err != nil {
		return err
	}
	limits, err := a.Admission.ClusterLimits(ctx, tx, view.ID, view.Spec)
	view.Price, view.Cost, view.PerHour, view.Limits = whole.String(), charged.Cost().String(), charged.PerHour().
		String(), some(each(limits, limitView))
	return err
}
