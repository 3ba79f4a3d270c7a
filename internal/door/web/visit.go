package web

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
	"muster/internal/kit/clock"
	"muster/internal/spec"
)

// visit is a request of somebody who may enter.
type visit struct {
	asked    asked
	cookie   string // hash
	who      access.Caller
	cluster  cluster.Cluster
	app      spec.App
	node     node.Node // zero if it is not there
	left     time.Duration
	revision int64 // of the cluster, when it was last asked whether they may
}

// enter finds who a cookie belongs to and whether they may enter the app now.
func (d *Door) enter(ctx context.Context, tx *core.Tx, cookie string, a asked) (*visit, error) {
	who, login, left, err := person.FindWebLogin(ctx, tx, cookie)
	if errors.Is(err, core.ErrNotFound) {
		return nil, notSignedIn(a)
	}
	if err != nil {
		return nil, err
	}
	if login.Cluster == "" { // of the console
		return nil, notSignedIn(a)
	}
	c, err := cluster.Get(ctx, tx, login.Cluster)
	if err != nil {
		return nil, err
	}
	// A cookie opens the one host that it was made for.
	if c.Phase == core.Deleted || d.Place.Host(c, login.App) != a.host {
		return nil, notSignedIn(a)
	}
	if !who.May(access.Enter, c.Project) || !c.Admits(who.Name) {
		return nil, notAllowed(c)
	}
	v := &visit{asked: a, cookie: cookie, who: who, cluster: c, left: left, revision: c.Revision}
	for _, app := range c.Spec.Apps() {
		if app.Name == login.App {
			v.app = app
		}
	}
	if v.app.Name == "" {
		return nil, noSuchApp(c, login.App)
	}
	nodes, err := node.Of(ctx, tx, c.ID)
	for _, n := range nodes {
		if n.Name == v.app.Node {
			v.node = n
		}
	}
	return v, err
}

// reachable says why the app cannot be reached now, if it cannot.
func (v *visit) reachable() error {
	switch {
	case v.cluster.Phase == cluster.Paused:
		return paused(v.cluster)
	case v.node.Phase != core.Ready && v.node.Phase != node.Draining:
		return notReady(v.cluster, v.app, v.node)
	}
	return nil
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// begin notes that a visit goes on. Its context ends when the visit does, when the cookie ends, or when it is taken away.
func (d *Door) begin(ctx context.Context, v *visit) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, visitKey{}, v))
	ended := time.AfterFunc(v.left, func() { cancel(notSignedIn(v.asked)) })
	d.mu.Lock()
	d.open[v] = cancel
	d.mu.Unlock()
	return ctx, func() {
		ended.Stop()
		d.mu.Lock()
		delete(d.open, v)
		d.mu.Unlock()
		cancel(nil)
	}
}

// watchEvery is how often it is looked whether it has changed who may do what.
const watchEvery = time.Second

// watch ends the visits of those who may no longer enter, until ctx ends.
func (d *Door) watch(ctx context.Context) {
	for clock.Sleep(ctx, watchEvery) == nil {
		if err := d.look(ctx); err != nil && ctx.Err() == nil {
			d.Log.ErrorContext(ctx, "cannot check who may still use web apps", "error", err)
		}
	}
}

// look asks again for every visit whose cluster has a new revision: it gets one when its file changes, and when it changes
// anywhere who may do what.
func (d *Door) look(ctx context.Context) error {
	d.mu.Lock()
	open := slices.Collect(maps.Keys(d.open))
	d.mu.Unlock()
	if len(open) == 0 {
		return nil
	}
	ended := map[*visit]error{}
	err := d.DB.View(ctx, func(tx *core.Tx) error {
		revisions, err := cluster.Revisions(ctx, tx)
		if err != nil {
			return err
		}
		for _, v := range open {
			now, lives := revisions[v.cluster.ID]
			if lives && now == v.revision {
				continue
			}
			_, err := d.enter(ctx, tx, v.cookie, v.asked)
			if refused, is := errors.AsType[refusal](err); is {
				ended[v] = refused
			} else if err != nil {
				return err
			}
			v.revision = now
		}
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	for v, why := range ended {
		if cancel, there := d.open[v]; there {
			cancel(why)
		}
	}
	return err
}
