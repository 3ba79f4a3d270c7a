package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/admission"
	"muster/internal/inventory"
	"muster/internal/kit/duration"
	"muster/internal/spec"
	"muster/internal/store"
)

// Term is when a cluster's lease runs.
type Term struct {
	StartsAt time.Time     `json:"starts_at" doc:"when its nodes are to be there"`
	EndsAt   time.Time     `json:"ends_at,omitzero" doc:"absent: it has no end"`
	OnEnd    store.Desired `json:"on_end" enum:"paused,deleted" doc:"what becomes of it at its end"`
}

func leaseView(c store.Cluster) Term {
	return Term{StartsAt: c.StartsAt, EndsAt: c.EndsAt, OnEnd: c.OnEnd()}
}

// Calendar says what is free, held and reserved.
type Calendar struct {
	Now     time.Time       `json:"now" doc:"the site's clock"`
	From    time.Time       `json:"from"`
	Until   time.Time       `json:"until"`
	Classes []ClassCalendar `json:"classes"`
}

// ClassCalendar is one class's. Classes may overlap: a machine counts in each of its own.
type ClassCalendar struct {
	Name     string `json:"name"`
	Machines int    `json:"machines" doc:"in service: neither in maintenance nor in quarantine"`
	Slots    []Slot `json:"slots" doc:"without gaps; nothing changes within one"`
}

// Slot is a time in which nothing changes.
type Slot struct {
	From     time.Time       `json:"from"`
	Until    time.Time       `json:"until"`
	Free     int             `json:"free"`
	Held     int             `json:"held" doc:"by nodes that are there, or being prepared for the next"`
	Reserved int             `json:"reserved" doc:"by clusters that are to come, and nodes that clusters lack"`
	By       []CalendarShare `json:"by"`
}

// CalendarShare is one cluster's part of a class.
type CalendarShare struct {
	Cluster  string `json:"cluster" doc:"its name; (being prepared) for machines between two"`
	Machines int    `json:"machines"`
	Reserved bool   `json:"reserved,omitempty" doc:"not there yet"`
}

func (a *API) registerLeases(api huma.API) {
	huma.Register(api, maybeNothing(huma.Operation{OperationID: "extend-cluster", Method: http.MethodPost, Path: "/v1/clusters/{cluster}/extend", Summary: "Move the end of a cluster's lease",
		DefaultStatus: http.StatusAccepted, Errors: []int{404, 409, 422}, Tags: []string{"clusters"}}), a.extendCluster)
	huma.Register(api, huma.Operation{OperationID: "get-calendar", Method: http.MethodGet, Path: "/v1/calendar", Summary: "Show which machines are free, held and reserved when",
		Errors: []int{404}, Tags: []string{"catalogue"}}, a.getCalendar)
}

type extendInput struct {
	ClusterRef
	Request
	Body struct {
		For   string `json:"for,omitempty" doc:"how much longer, as in a cluster file: 2d. From the end, or from now if that has passed" maxLength:"20"`
		Until string `json:"until,omitempty" doc:"instead: the new end, in RFC 3339 or as +2d from now" maxLength:"40"`
	}
}

func (a *API) extendCluster(ctx context.Context, in *extendInput) (*answerOutput, error) {
	return a.carryOut(ctx, in.Request, nil, request("extend", in.Cluster, in.Body.For, in.Body.Until), func(ctx context.Context, tx *store.Tx) (*admission.Plan, error) {
		current, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return nil, err
		}
		return a.changed(ctx, tx, current, func(current store.Cluster) (*admission.Plan, error) {
			now, err := tx.Now(ctx)
			if err != nil {
				return nil, err
			}
			until, err := in.end(current, now)
			if err != nil {
				return nil, err
			}
			return a.Admission.Change(ctx, tx, current, admission.Prolonged(current, until))
		})
	})
}

// end is the new end that is asked for.
func (in *extendInput) end(c store.Cluster, now time.Time) (time.Time, error) {
	invalid := func(text, hint string) (time.Time, error) {
		return time.Time{}, problem(http.StatusUnprocessableEntity, "invalid", text, hint)
	}
	if (in.Body.For == "") == (in.Body.Until == "") {
		return invalid("say either for or until", "as in for: 2d, or until: 2027-03-01T08:00:00Z")
	}
	if c.EndsAt.IsZero() {
		return invalid(fmt.Sprintf("the lease of cluster %s has no end", c.Name), "there is nothing to extend")
	}
	if in.Body.For != "" {
		more, err := duration.Within(in.Body.For, time.Second, duration.Longest)
		if err != nil {
			return time.Time{}, badDuration("for", err)
		}
		from := c.EndsAt
		if now.After(from) {
			from = now.Truncate(time.Second)
		}
		return from.Add(more), nil
	}
	until, err := spec.Time(in.Body.Until, now)
	if err != nil {
		return invalid("until: "+err.Error(), "")
	}
	if !until.After(c.EndsAt) {
		return invalid(fmt.Sprintf("the lease of cluster %s runs until %s as it is", c.Name, spec.When(c.EndsAt)), "to end it earlier, write a shorter lease.for in its file and `muster apply` it")
	}
	return until.Truncate(time.Second), nil
}

type calendarInput struct {
	Class string `query:"class" doc:"only this one" maxLength:"63"`
	From  string `query:"from" doc:"default: now. RFC 3339, or +2d from now" maxLength:"40"`
	To    string `query:"to" doc:"default: a week after from. RFC 3339, or +2d from now" maxLength:"40"`
}

// week is what a calendar shows unless it is told otherwise.
const week = 7 * 24 * time.Hour

func (a *API) getCalendar(ctx context.Context, in *calendarInput) (*struct{ Body Calendar }, error) {
	out := &struct{ Body Calendar }{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		from, until, err := in.span(now)
		if err != nil {
			return err
		}
		classes := a.Admission.Catalogue.Classes
		if in.Class != "" {
			class, ok := a.Admission.Catalogue.Find(in.Class)
			if !ok {
				return problem(http.StatusNotFound, "not-found", fmt.Sprintf("there is no class %q", in.Class), "`muster classes` lists those there are")
			}
			classes = []inventory.Class{class}
		}
		out.Body, err = a.calendarView(ctx, tx, now, classes, from, until)
		return err
	})
	return out, a.tell(err, nil)
}

func (in *calendarInput) span(now time.Time) (from, until time.Time, err error) {
	if from, err = spec.Time(cmp.Or(in.From, spec.Now), now); err != nil {
		return from, until, problem(http.StatusUnprocessableEntity, "invalid", "from: "+err.Error(), "")
	}
	if from.Before(now) { // what was is in the events
		from = now
	}
	until = from.Add(week)
	if in.To != "" {
		if until, err = spec.Time(in.To, now); err != nil {
			return from, until, problem(http.StatusUnprocessableEntity, "invalid", "to: "+err.Error(), "")
		}
	}
	if !until.After(from) {
		return from, until, problem(http.StatusUnprocessableEntity, "invalid", fmt.Sprintf("to: %s is not after %s", spec.When(until), spec.When(from)), "the calendar shows what is to come")
	}
	return from, until, nil
}

func (a *API) calendarView(ctx context.Context, tx *store.Tx, now time.Time, classes []inventory.Class, from, until time.Time) (Calendar, error) {
	view := Calendar{Now: now, From: from, Until: until, Classes: []ClassCalendar{}}
	machines, err := tx.Machines(ctx)
	if err != nil {
		return view, err
	}
	c, err := a.Admission.Calendar(ctx, tx, now, machines, nil)
	if err != nil {
		return view, err
	}
	clusters, err := tx.Clusters(ctx, "")
	if err != nil {
		return view, err
	}
	names := map[string]string{}
	for _, cluster := range clusters {
		names[cluster.ID] = cluster.Name
		if !sees(ctx, cluster.Project) {
			names[cluster.ID] = "(another project's)"
		}
	}
	for i, slots := range c.Table(classes, from, until) {
		one := ClassCalendar{Name: classes[i].Name, Slots: []Slot{}}
		for _, s := range slots {
			slot := Slot{From: s.From, Until: s.Until, Free: s.Free, Held: s.Held, Reserved: s.Reserved, By: []CalendarShare{}}
			for _, share := range s.By {
				slot.By = append(slot.By, CalendarShare{Cluster: cmp.Or(names[share.By], share.By), Machines: share.Machines, Reserved: share.Reserved})
			}
			slices.SortStableFunc(slot.By, func(x, y CalendarShare) int { return cmp.Compare(x.Cluster, y.Cluster) })
			one.Machines = s.Free + s.Held + s.Reserved
			one.Slots = append(one.Slots, slot)
		}
		view.Classes = append(view.Classes, one)
	}
	return view, nil
}
