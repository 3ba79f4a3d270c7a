package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/bench"
)

const mostChanges = 1000

func (a *API) clusterTrends(ctx context.Context,
	in *apiv1.ListClusterTrendsInput) (*output[apiv1.List[apiv1.BenchmarkTrend]], error) {
	of := bench.TrendsOf{Scope: bench.Scope{Machine: in.Machine}, Quantity: in.Quantity}
	if in.Runs != "" {
		of.Runs = strings.Split(in.Runs, ",")
	}
	return a.trends(ctx, of, in.Page, func(tx *core.Tx) (id string, err error) {
		c, err := a.find(ctx, tx, in.Cluster)
		return c.ID, err
	})
}

func (a *API) listTrends(ctx context.Context, in *apiv1.ListTrendsInput) (*output[apiv1.List[apiv1.BenchmarkTrend]], error) {
	if (in.Machine == "") == (in.Class == "") {
		return nil, invalid("trends are of a machine or of a class: name one of them", "")
	}
	of := bench.TrendsOf{Scope: bench.Scope{Machine: in.Machine}, Class: in.Class, Quantity: in.Quantity}
	return a.trends(ctx, of, in.Page, func(*core.Tx) (string, error) { return "", nil })
}

// trends lists those of a cluster, or of all.
func (a *API) trends(ctx context.Context, of bench.TrendsOf, page apiv1.Page,
	cluster func(*core.Tx) (string, error)) (*output[apiv1.List[apiv1.BenchmarkTrend]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.BenchmarkTrend]) (err error) {
		if of.Cluster, err = cluster(tx); err != nil {
			return err
		}
		trends, err := bench.History(ctx, tx, of)
		key := func(t bench.Trend) string { return t.Recipe + " " + t.Quantity + " " + t.Series }
		slices.SortFunc(trends, func(a, b bench.Trend) int { return strings.Compare(key(a), key(b)) })
		*out = pagedAs(page, trends, key, trendView)
		return err
	})
}

func trendView(t bench.Trend) apiv1.BenchmarkTrend {
	return apiv1.BenchmarkTrend{BenchmarkQuantity: apiv1.BenchmarkQuantity(t.What), Changes: each(t.Changes, changeView),
		Points: each(t.Points, func(p bench.Point) apiv1.BenchmarkPoint {
			return apiv1.BenchmarkPoint{Run: p.Run, At: p.At, Value: p.Value}
		})}
}

func changeView(c bench.Change) apiv1.BenchmarkChange {
	v := apiv1.BenchmarkChange{ID: c.ID, BenchmarkQuantity: apiv1.BenchmarkQuantity(c.What), Project: c.Project,
		Machine: c.Machine, Run: c.Run, At: c.At, Was: c.Was, Became: c.Became, Worse: c.Worse(), Text: c.String(),
		Causes: c.Causes, ReportedAt: c.ToldAt, Accepted: c.Accepted}
	if c.Scope.Cluster != "" {
		v.Cluster = c.Name
	}
	return v
}

func (a *API) listChanges(ctx context.Context, _ *apiv1.Nothing) (*output[apiv1.List[apiv1.BenchmarkChange]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.BenchmarkChange]) error {
		changes, err := bench.Changes(ctx, tx, visible(ctx), mostChanges)
		out.Items = some(each(changes, changeView))
		return err
	})
}

func (a *API) acceptChange(ctx context.Context, in *apiv1.ChangeRef) (*output[apiv1.BenchmarkChange], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.BenchmarkChange) error {
		c, err := bench.GetChange(ctx, tx, in.Change)
		if err == nil && c.Scope.Cluster == "" && !callerOf(ctx).May(access.Run, "") { // it is the site's
			err = fmt.Errorf("change %s: %w", in.Change, core.ErrNotFound)
		}
		if err == nil {
			err = permit(ctx, c.Project, "change "+in.Change)
		}
		if err != nil {
			return err
		}
		if err := bench.Accept(ctx, tx, c, identityOf(ctx)); err != nil {
			return err
		}
		c, err = bench.GetChange(ctx, tx, in.Change)
		*out = changeView(c)
		return err
	})
}
