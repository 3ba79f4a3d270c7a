package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
	"muster/internal/kit/duration"
	"muster/internal/spec"
)

func drainOf(c apiv1.Request) (time.Duration, error) {
	if c.DrainTimeout == "" {
		return 0, nil
	}
	d, err := duration.Within(c.DrainTimeout, time.Millisecond, duration.Longest)
	if err != nil {
		return 0, badDuration("drain_timeout", err)
	}
	return d, nil
}

// pageOf cuts a page out of a list that is sorted by key.
func pageOf[T any](p apiv1.Page, all []T, key func(T) string) apiv1.List[T] {
	list := apiv1.List[T]{Items: []T{}}
	for i, item := range all {
		if p.Cursor != "" && key(item) <= p.Cursor {
			continue
		}
		if list.Items = append(list.Items, item); len(list.Items) == p.Limit && i < len(all)-1 {
			list.Next = key(item)
			break
		}
	}
	return list
}

// pagedAs cuts a page out of a list that is sorted by key. Only what is on the page becomes a view.
func pagedAs[T, View any](p apiv1.Page, all []T, key func(T) string, view func(T) View) apiv1.List[View] {
	cut := pageOf(p, all, key)
	return apiv1.List[View]{Items: each(cut.Items, view), Next: cut.Next}
}

// cursor is where a list goes on whose newest come first: after the one of an instant and an ID.
func cursor(at time.Time, id string) string { return fmt.Sprintf("%d-%s", at.UnixMilli(), id) }

// placeAt reads a cursor; of none, all is empty.
func placeAt(text string) (at time.Time, id string, err error) {
	if text == "" {
		return at, "", nil
	}
	ms, id, _ := strings.Cut(text, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || id == "" {
		return at, "", badCursor()
	}
	return time.UnixMilli(n), id, nil
}

func badCursor() error { return invalid("cursor: not one that the page before returned", "") }

// inOrder is an instant as text that sorts as instants do.
func inOrder(t time.Time) string { return fmt.Sprintf("%020d", t.UnixMilli()) }

func (a *API) listClusters(ctx context.Context, in *apiv1.ListClustersInput) (*output[apiv1.List[apiv1.Cluster]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Cluster]) error {
		clusters, err := cluster.List(ctx, tx, in.Project)
		if err != nil {
			return err
		}
		clusters = slices.DeleteFunc(clusters, func(c cluster.Cluster) bool {
			return !sees(ctx, c.Project) || in.Phase != "" && in.Phase != apiv1.Phase(c.Phase)
		})
		// a space comes before all that names have
		cut := pageOf(in.Page, clusters, func(c cluster.Cluster) string { return c.Name + " " + c.Project })
		*out = apiv1.List[apiv1.Cluster]{Items: []apiv1.Cluster{}, Next: cut.Next}
		for _, c := range cut.Items {
			view, err := a.clusterView(ctx, tx, c)
			if err != nil {
				return err
			}
			out.Items = append(out.Items, view)
		}
		return nil
	})
}

// find is the cluster that a path names: a living one by name, or any by ID. It is one that the caller may do to what they
// want to.
func (a *API) find(ctx context.Context, tx *core.Tx, ref string) (cluster.Cluster, error) {
	_, name := access.Named(ref)
	named, err := cluster.AllNamed(ctx, tx, name)
	if err != nil {
		return cluster.Cluster{}, err
	}
	c, err := choose(ctx, "cluster", ref, named, func(c cluster.Cluster) (string, string) { return c.Project, c.Name })
	if isNotFound(err) {
		if byID, other := cluster.Get(ctx, tx, ref); !isNotFound(other) {
			c, err = byID, other
		}
	}
	if err == nil {
		err = permit(ctx, c.Project, "cluster "+ref)
	}
	if err != nil {
		return cluster.Cluster{}, err
	}
	return c, nil
}

func (a *API) getCluster(ctx context.Context, in *apiv1.ClusterRef) (*output[apiv1.Cluster], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Cluster) error {
		c, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return err
		}
		*out, err = a.clusterView(ctx, tx, c)
		return err
	})
}

func (a *API) createCluster(ctx context.Context, in *apiv1.CreateClusterInput) (*output[apiv1.Answer], error) {
	doc, err := spec.Parse("", in.RawBody)
	if err != nil {
		return nil, err
	}
	return a.carryOut(ctx, in.Request, doc, request("create", string(in.RawBody), in.FromSnapshot),
		a.offering(in.DryRun, doc.Cluster, func(ctx context.Context, tx *core.Tx, want spec.Cluster) (*admission.Plan, error) {
			source, err := a.sourceOf(ctx, tx, in.FromSnapshot)
			if err != nil {
				return nil, err
			}
			c, err := a.home(ctx, tx, want)
			if err != nil {
				return nil, err
			}
			return a.Admission.CreateFrom(ctx, tx, c, source)
		}))
}

// offering plans a file. A dry run that is refused says what would be admitted instead: it keeps no writer waiting.
func (a *API) offering(dry bool, c spec.Cluster, plan func(context.Context, *core.Tx, spec.Cluster) (*admission.Plan,
	error)) func(context.Context, *core.Tx) (*admission.Plan, error) {
	return func(ctx context.Context, tx *core.Tx) (*admission.Plan, error) {
		p, err := plan(ctx, tx, c)
		var refusal *admission.Refusal
		if !dry || !errors.As(err, &refusal) {
			return p, err
		}
		runs := p != nil && p.Current() != nil
		return p, cmp.Or(a.Admission.Instead(refusal, c, runs, func(c spec.Cluster) (*admission.Plan, error) {
			return plan(ctx, tx, c)
		}), err)
	}
}

func (a *API) applyCluster(ctx context.Context, in *apiv1.ApplyClusterInput) (*output[apiv1.Answer], error) {
	doc, err := spec.Parse("", in.RawBody)
	if err != nil {
		return nil, err
	}
	ref := in.Cluster
	if doc.Cluster.Project != "" && ref == doc.Cluster.Name {
		ref = doc.Cluster.Project + "/" + ref
	}
	return a.carryOut(ctx, in.Request, doc, request("apply", in.Cluster, string(in.RawBody), fmt.Sprint(in.RefreshImage)),
		a.offering(in.DryRun, doc.Cluster, func(ctx context.Context, tx *core.Tx, want spec.Cluster) (*admission.Plan, error) {
			current, err := a.find(ctx, tx, ref)
			switch {
			case isNotFound(err) && want.Name == ref[strings.LastIndex(ref, "/")+1:]:
				c, err := a.home(ctx, tx, want)
				if err != nil {
					return nil, err
				}
				return a.Admission.Create(ctx, tx, c)
			case err != nil:
				return nil, err
			}
			want.Project = cmp.Or(want.Project, current.Project)
			change := a.Admission.Change
			if in.RefreshImage {
				change = a.Admission.Refresh
			}
			plan, err := a.changed(ctx, tx, current, func(current cluster.Cluster) (*admission.Plan, error) {
				return change(ctx, tx, current, want)
			})
			if err == nil && !in.RefreshImage {
				plan.Messages = append(plan.Messages, a.Admission.Newer(plan)...)
			}
			return plan, err
		}))
}

// bounds are a queue's min and max as asked for.
func bounds(b apiv1.ScaleClusterBody) (least, most *int, err error) {
	switch {
	case b.Min == nil && b.Max == nil:
		return &b.Nodes, &b.Nodes, nil
	case b.Min == nil || b.Max == nil || b.Nodes != 0:
		return nil, nil, invalid("the size is unclear", "write either nodes, or min and max")
	case *b.Min > *b.Max:
		return nil, nil, invalid(fmt.Sprintf("min is %d and max is %d", *b.Min, *b.Max), "min must be at most max")
	}
	return b.Min, b.Max, nil
}

// sizeAsked is what is asked for in one word.
func sizeAsked(b apiv1.ScaleClusterBody) string {
	if b.Min != nil && b.Max != nil {
		return fmt.Sprintf("%d-%d", *b.Min, *b.Max)
	}
	return fmt.Sprint(b.Nodes)
}

func (a *API) scaleCluster(ctx context.Context, in *apiv1.ScaleClusterInput) (*output[apiv1.Answer], error) {
	return a.carryOut(ctx, in.Request, nil, request("scale", in.Cluster, in.Body.Queue, sizeAsked(in.Body)),
		func(ctx context.Context, tx *core.Tx) (*admission.Plan, error) {
			current, err := a.find(ctx, tx, in.Cluster)
			if err != nil {
				return nil, err
			}
			want := current.Spec
			want.Queues = append([]spec.Queue{}, current.Spec.Queues...)
			var names []string
			for i := range want.Queues {
				q := &want.Queues[i]
				names = append(names, q.Name)
				if q.Name == in.Body.Queue || in.Body.Queue == "" && len(want.Queues) == 1 {
					if q.Min, q.Max, err = bounds(in.Body); err != nil {
						return nil, err
					}
					return a.changed(ctx, tx, current, func(current cluster.Cluster) (*admission.Plan, error) {
						return a.Admission.Change(ctx, tx, current, want)
					})
				}
			}
			text := fmt.Sprintf("cluster %s has no queue %q", current.Name, in.Body.Queue)
			if in.Body.Queue == "" {
				text = fmt.Sprintf("cluster %s has %d queues: say which", current.Name, len(names))
			}
			return nil, invalid(text, "its queues are "+strings.Join(names, ", "))
		})
}

// changed plans a change on the row as it stands now; no other change comes in between.
func (a *API) changed(ctx context.Context, tx *core.Tx, current cluster.Cluster,
	plan func(cluster.Cluster) (*admission.Plan, error)) (*admission.Plan, error) {
	if err := cluster.Lock(ctx, tx, current.ID); err != nil {
		return nil, err
	}
	current, err := cluster.Get(ctx, tx, current.ID)
	if err != nil {
		return nil, err
	}
	if current.Phase == core.Deleted {
		return nil, conflict(fmt.Sprintf("cluster %s is deleted", current.Name), "create it again")
	}
	return plan(current)
}

// carryOut runs a plan and, unless it is a dry run, writes it, in one transaction together with the answer for a
// repeated request.
func (a *API) carryOut(ctx context.Context, in apiv1.Request, doc *spec.Document, request string,
	plan func(context.Context, *core.Tx) (*admission.Plan, error)) (*output[apiv1.Answer], error) {
	drainFor, err := drainOf(in)
	if err != nil {
		return nil, err
	}
	plan = a.followed(plan)
	out := &output[apiv1.Answer]{}
	if in.DryRun {
		out.Status = http.StatusOK
		err := a.DB.View(core.Apart(ctx), func(tx *core.Tx) error {
			p, err := plan(ctx, tx)
			if err == nil {
				out.Body.Plan = planView(p)
				out.Body.ReadyIn, err = readyIn(ctx, tx, p)
			}
			if err == nil {
				out.Body.After, err = a.quotaAfter(ctx, tx, p)
			}
			return err
		})
		return out, a.tell(err, doc)
	}
	err = a.once(ctx, in.IdempotencyKey, request, out, func(tx *core.Tx) error {
		out.Status, out.Body = http.StatusAccepted, apiv1.Answer{}
		after, err := tx.LastEvent(ctx)
		if err != nil {
			return err
		}
		p, err := plan(ctx, tx)
		if err != nil {
			return err
		}
		out.Body.Plan = planView(p)
		current := p.Current()
		if current != nil && p.Empty() {
			return a.unchanged(ctx, tx, *current, drainFor, out)
		}
		c, err := a.Admission.CarryOut(ctx, tx, p, identityOf(ctx), drainFor)
		if err != nil {
			return err
		}
		view, err := a.clusterView(ctx, tx, c)
		out.Body.Cluster = &view
		out.Body.Operation = &apiv1.Operation{Kind: kindOf(current), Cluster: c.ID, Generation: c.Generation, EventsAfter: after}
		return err
	})
	return out, a.tell(err, doc)
}

// unchanged answers a request that changes no field. A drain limit is then meant for the nodes that drain already.
func (a *API) unchanged(ctx context.Context, tx *core.Tx, c cluster.Cluster, drainFor time.Duration,
	out *output[apiv1.Answer]) error {
	out.Status = http.StatusOK
	if drainFor > 0 {
		limited, err := node.LimitDrains(ctx, tx, c.ID, drainFor)
		if err != nil {
			return err
		}
		if limited > 0 {
			out.Body.Messages = append(out.Body.Messages, fmt.Sprintf("%d draining nodes have %s left for their jobs", limited,
				drainFor))
		}
	}
	view, err := a.clusterView(ctx, tx, c)
	out.Body.Cluster = &view
	return err
}

func kindOf(current *cluster.Cluster) string {
	if current == nil {
		return "create"
	}
	return "change"
}

func (a *API) deleteCluster(ctx context.Context, in *apiv1.DeleteClusterInput) (*output[apiv1.Answer], error) {
	out := &output[apiv1.Answer]{}
	err := a.once(ctx, in.IdempotencyKey, request("delete", in.Cluster), out, func(tx *core.Tx) error {
		out.Status, out.Body = http.StatusAccepted, apiv1.Answer{Plan: planView(&admission.Plan{})}
		after, err := tx.LastEvent(ctx)
		if err != nil {
			return err
		}
		c, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return err
		}
		if c.Desired != core.ToDelete {
			if err := cluster.WantDeleted(ctx, tx, c.ID); err != nil {
				return err
			}
			tx.Log(core.Event{Type: "cluster.requested", Project: c.Project, ClusterID: c.ID, Cluster: c.Name,
				Text: "delete, by " + identityOf(ctx)})
		}
		view, err := a.clusterView(ctx, tx, c)
		if err != nil {
			return err
		}
		out.Body.Cluster, out.Body.Plan.Spec = &view, c.Spec
		for _, n := range view.Nodes {
			out.Body.Release = append(out.Body.Release, n.Name)
		}
		out.Body.Operation = &apiv1.Operation{Kind: "delete", Cluster: c.ID, Generation: c.Generation, EventsAfter: after}
		return nil
	})
	return out, err
}

// request is the fingerprint of what is asked, to tell a repeated request from another under the same key.
func request(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// once runs f in a transaction. With a key, the answer is recorded in that transaction, and a request that comes again is
// answered from the record, if who asks may still do what was done. A key belongs to a person, and for tokens that are for
// one project to that, too: so the same words mean the same thing.
func (a *API) once(ctx context.Context, key, request string, out *output[apiv1.Answer], f func(*core.Tx) error) error {
	owner := keyOwner(callerOf(ctx))
	update := func() error {
		return a.DB.Update(ctx, func(tx *core.Tx) error {
			if key == "" {
				return f(tx)
			}
			answer, err := person.FindAnswer(ctx, tx, owner, key)
			if err == nil {
				return again(ctx, answer, request, out)
			}
			if !isNotFound(err) {
				return err
			}
			if err := f(tx); err != nil {
				return err
			}
			body, err := json.Marshal(out.Body)
			if err != nil {
				return err
			}
			return person.SaveAnswer(ctx, tx, owner, key, person.Answer{Request: request, Project: askedOf(ctx).project,
				Status: out.Status, Body: string(body)})
		})
	}
	err := update()
	if key != "" && errors.Is(err, core.ErrExists) { // two at the same time: the other has written its answer by now
		err = update()
	}
	if o := out.Body.Operation; err == nil && o != nil {
		r := askedOf(ctx)
		r.op = fmt.Sprintf("%s/%d", o.Cluster, o.Generation)
		if out.Body.Cluster != nil {
			r.cluster = out.Body.Cluster.Name
		}
	}
	return err
}

// keyOwner is who an idempotency key belongs to. No name holds a slash.
func keyOwner(c access.Caller) string {
	if c.Project != "" {
		return c.Name + "/" + c.Project
	}
	return c.Name
}

// again gives a recorded answer to who may still do what was done then; else it says what it would say about a new request.
func again(ctx context.Context, answer person.Answer, request string, out *output[apiv1.Answer]) error {
	var body apiv1.Answer
	if err := json.Unmarshal([]byte(answer.Body), &body); err != nil {
		return fmt.Errorf("read a recorded answer: %w", err)
	}
	what := "what was asked for"
	if body.Cluster != nil {
		what = "cluster " + body.Cluster.Name
	}
	if err := permit(ctx, answer.Project, what); err != nil {
		return err
	}
	if answer.Request != request {
		return invalid("this Idempotency-Key was used for another request", "use a new key for each request")
	}
	out.Status, out.Body = answer.Status, body
	return nil
}
