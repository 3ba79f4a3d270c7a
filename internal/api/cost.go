package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/admission"
	"muster/internal/store"
	"muster/internal/usage"
)

// UsageLine is what one thing used at one price.
type UsageLine struct {
	Kind           usage.Kind         `json:"kind" enum:"node,home"`
	Project        string             `json:"project"`
	Cluster        string             `json:"cluster"`
	ClusterID      string             `json:"cluster_id"`
	Node           string             `json:"node,omitempty" doc:"absent by queue, and for a /home"`
	Queue          string             `json:"queue,omitempty" doc:"absent for the head and for a /home"`
	Class          string             `json:"class,omitempty"`
	Machine        string             `json:"machine,omitempty"`
	Nodes          int                `json:"nodes,omitempty" doc:"how many nodes were there, one after the other or beside each other"`
	From           time.Time          `json:"from" doc:"first instant counted"`
	To             time.Time          `json:"to" doc:"last instant counted"`
	Seconds        map[string]float64 `json:"seconds" doc:"by state, to the millisecond; of all nodes of the line together"`
	ChargedSeconds float64            `json:"charged_seconds"`
	GiBMonths      float64            `json:"gib_months,omitempty" doc:"of a /home; a month has 730 hours"`
	Rate           string             `json:"rate,omitempty" doc:"per hour of a node, per GiB and month of a /home"`
	Cost           string             `json:"cost,omitempty" doc:"charged time times rate, rounded to a millionth"`
}

// Limit is a budget, or a quota of node-hours, and how much of it is used.
type Limit struct {
	What        string  `json:"what"`
	Used        string  `json:"used"`
	Limit       string  `json:"limit"`
	Percent     int     `json:"percent" doc:"rounded down; 100 when it is reached"`
	LeftSeconds float64 `json:"left_seconds,omitempty" doc:"how long it lasts if nothing changes; absent while nothing is charged"`
	Pauses      bool    `json:"pauses" doc:"clusters pause when it is reached"`
}

// Cost is what a cluster has cost.
type Cost struct {
	Cluster   string      `json:"cluster"`
	ClusterID string      `json:"cluster_id"`
	Project   string      `json:"project"`
	From      time.Time   `json:"from"`
	To        time.Time   `json:"to"`
	Total     string      `json:"total,omitempty" doc:"sum of the lines; absent where the site has no prices"`
	PerHour   string      `json:"per_hour,omitempty" doc:"what is charged now"`
	Limits    []Limit     `json:"limits" doc:"its own budget"`
	Lines     []UsageLine `json:"lines"`
}

// Statement is what projects have used.
type Statement struct {
	Site      string      `json:"site"`
	Project   string      `json:"project,omitempty" doc:"absent for all"`
	From      time.Time   `json:"from"`
	To        time.Time   `json:"to" doc:"now, if the time is not over"`
	Total     string      `json:"total,omitempty" doc:"sum of the lines; absent where the site has no prices"`
	NodeHours float64     `json:"node_hours" doc:"charged"`
	Lines     []UsageLine `json:"lines"`
}

// Share is how much of a quota is in use.
type Share struct {
	Used  int  `json:"used"`
	Limit *int `json:"limit,omitempty" doc:"absent: without limit"`
}

// Quota is what a project may hold, and what it holds.
type Quota struct {
	Project string  `json:"project"`
	Nodes   Share   `json:"nodes" doc:"heads, nodes on their way, and nodes that a queue is always to have"`
	Cores   Share   `json:"cores"`
	GPUs    Share   `json:"gpus"`
	Limits  []Limit `json:"limits" doc:"of the running month, in UTC: budget, node-hours"`
}

// Window is a time to look at.
type Window struct {
	From time.Time `query:"from" doc:"RFC 3339; what was used before is left out"`
	To   time.Time `query:"to" doc:"RFC 3339; what was used later is left out"`
	By   usage.By  `query:"by" enum:"queue,node,row" default:"node" doc:"how much goes into one line: all of a queue, a node's life, or a stretch in one state"`
}

// between is the window with both ends; what is still to come is not in it.
func (w Window) between(from, now time.Time) (time.Time, time.Time, error) {
	to := now
	if !w.From.IsZero() {
		from = w.From
	}
	if !w.To.IsZero() && w.To.Before(now) {
		to = w.To
	}
	if from.After(now) || !w.From.IsZero() && !w.To.IsZero() && !w.To.After(w.From) {
		return from, to, problem(http.StatusUnprocessableEntity, "invalid", fmt.Sprintf("nothing is between %s and %s", from.Format(time.RFC3339), to.Format(time.RFC3339)), "from must be before to, and in the past")
	}
	return from, to, nil
}

func (a *API) registerCost(api huma.API) {
	tags := []string{"usage"}
	op := func(id, path, summary string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Errors: errors, Tags: tags}
	}
	huma.Register(api, op("get-cluster-cost", "/v1/clusters/{cluster}/cost", "Show what a cluster has cost, living or deleted", 404), a.clusterCost)
	huma.Register(api, op("get-usage", "/v1/usage", "Show what projects have used, this month or at any time"), a.statement)
	huma.Register(api, op("get-quota", "/v1/projects/{project}/quota", "Show what a project may hold and holds", 404), a.quota)
}

func (a *API) clusterCost(ctx context.Context, in *struct {
	ClusterRef
	Window
}) (*struct{ Body Cost }, error) {
	out := &struct{ Body Cost }{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		c, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		from, to, err := in.between(c.CreatedAt, now)
		if err != nil {
			return err
		}
		lines, err := linesOf(ctx, tx, store.UsageOf{Cluster: c.ID, From: from, To: to}, in.By)
		if err != nil {
			return err
		}
		charged, err := tx.Spending(ctx, store.UsageOf{Cluster: c.ID})
		if err != nil {
			return err
		}
		limits, err := a.Admission.ClusterLimits(ctx, tx, c.ID, c.Spec)
		out.Body = Cost{
			Cluster: c.Name, ClusterID: c.ID, Project: c.Project, From: from, To: to, Total: usage.Total(lines).String(), PerHour: charged.PerHour().String(),
			Limits: limitViews(limits), Lines: lineViews(lines),
		}
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) statement(ctx context.Context, in *struct {
	Project string `query:"project" maxLength:"63" doc:"of all projects that you may look at, if empty"`
	Window
}) (*struct{ Body Statement }, error) {
	out := &struct{ Body Statement }{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		month, _ := usage.Month(now)
		from, to, err := in.between(month, now)
		if err != nil {
			return err
		}
		of := store.UsageOf{Projects: visible(ctx), From: from, To: to}
		if in.Project != "" {
			if !sees(ctx, in.Project) {
				return fmt.Errorf("project %s: %w", in.Project, store.ErrNotFound)
			}
			of.Projects = []string{in.Project}
		}
		lines, err := linesOf(ctx, tx, of, in.By)
		if err != nil {
			return err
		}
		out.Body = Statement{Site: a.Admission.Catalogue.Site, Project: in.Project, From: from, To: to, Total: usage.Total(lines).String(), Lines: lineViews(lines)}
		for _, l := range lines {
			if l.Kind == usage.Node {
				out.Body.NodeHours += l.Charged.Hours()
			}
		}
		return nil
	})
	return out, a.tell(err, nil)
}

func (a *API) quota(ctx context.Context, in *struct {
	Project string `path:"project" maxLength:"63"`
}) (*struct{ Body Quota }, error) {
	out := &struct{ Body Quota }{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		if _, err := tx.Project(ctx, in.Project); err != nil {
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
		granted := a.Admission.Catalogue.Projects[in.Project].Quota
		out.Body = Quota{
			Project: in.Project, Nodes: Share{use.Nodes, granted.Nodes}, Cores: Share{use.Cores, granted.Cores}, GPUs: Share{use.GPUs, granted.GPUs},
			Limits: limitViews(limits),
		}
		return err
	})
	return out, a.tell(err, nil)
}

func linesOf(ctx context.Context, tx *store.Tx, of store.UsageOf, by usage.By) ([]usage.Line, error) {
	rows, err := tx.Usage(ctx, of)
	return usage.Lines(rows, of.From, of.To, by), err
}

func lineViews(lines []usage.Line) []UsageLine {
	views := []UsageLine{}
	for _, l := range lines {
		view := UsageLine{
			Kind: l.Kind, Project: l.Project, Cluster: l.Cluster, ClusterID: l.ClusterID, Node: l.Node, Queue: l.Queue, Class: l.Class, Machine: l.Machine,
			Nodes: l.Nodes, From: l.From, To: l.To, Seconds: map[string]float64{}, ChargedSeconds: seconds(l.Charged), GiBMonths: l.GiBMonths,
			Rate: l.Rate.String(), Cost: l.Cost.String(),
		}
		for state, length := range l.Time {
			view.Seconds[string(state)] = seconds(length)
		}
		views = append(views, view)
	}
	return views
}

// seconds is exact to the millisecond, also as a decimal number.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

func limitViews(limits []admission.Limit) []Limit {
	views := []Limit{}
	for _, l := range limits {
		view := Limit{What: l.What, Used: l.Used, Limit: l.Limit, Percent: l.Percent, Pauses: l.Pauses}
		if l.Runs {
			view.LeftSeconds = l.Left.Round(time.Second).Seconds()
		}
		views = append(views, view)
	}
	return views
}

// money fills in what a cluster costs.
func (a *API) money(ctx context.Context, tx *store.Tx, view *Cluster) error {
	open, err := tx.Usage(ctx, store.UsageOf{Cluster: view.ID, Open: true})
	if err != nil {
		return err
	}
	whole := usage.Sum{}
	for _, r := range open {
		if r.Kind == usage.Node {
			whole.Add(r.Rate)
		}
	}
	charged, err := tx.Spending(ctx, store.UsageOf{Cluster: view.ID})
	if err != nil {
		return err
	}
	limits, err := a.Admission.ClusterLimits(ctx, tx, view.ID, view.Spec)
	view.Price, view.Cost, view.PerHour, view.Limits = whole.String(), charged.Cost().String(), charged.PerHour().String(), limitViews(limits)
	return err
}
