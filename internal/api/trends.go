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
	type keyed struct {
		key string // by which they are in order
		apiv1.BenchmarkTrend
	}
	var all []keyed
	err := a.DB.View(ctx, func(tx *core.Tx) (err error) {
		if of.Cluster, err = cluster(tx); err != nil {
			return err
		}
		trends, err := bench.History(ctx, tx, of)
		for _, t := range trends {
			all = append(all, keyed{t.Recipe + " " + t.Quantity + " " + t.Series, trendView(t)})
		}
		return err
	})
	slices.SortFunc(all, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	part := pageOf(page, all, func(t keyed) string { return t.key })
	out := &output[apiv1.List[apiv1.BenchmarkTrend]]{Body: apiv1.List[apiv1.BenchmarkTrend]{Items: []apiv1.BenchmarkTrend{},
		Next: part.Next}}
	for _, t := range part.Items {
		out.Body.Items = append(out.Body.Items, t.BenchmarkTrend)
	}
	return out, err
}

func trendView(t bench.Trend) apiv1.BenchmarkTrend {
	v := apiv1.BenchmarkTrend{BenchmarkQuantity: apiv1.BenchmarkQuantity(t.What)}
	for _, p := range t.Points {
		v.Points = append(v.Points, apiv1.BenchmarkPoint{Run: p.Run, At: p.At, Value: p.Value})
	}
	for _, c := range t.Changes {
		v.Changes = append(v.Changes, changeView(c))
	}
	return v
}

func changeView(c bench.Change) apiv1.BenchmarkChange {
	v := apiv1.BenchmarkChange{ID: c.ID, BenchmarkQuantity: apiv1.BenchmarkQuantity(c.What), Project: c.Project,
		Machine: c.Machine, Run: c.Run, At: c.At, Was: c.Was, Became: c.Became, Worse: c.Worse(), Text: c.String(),
		Causes: c.Causes, ToldAt: c.ToldAt, Accepted: c.Accepted}
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
