package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/door/web"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/person"
	"muster/internal/kit/lists"
	"muster/internal/spec"
)

// webView is the door as the site tells of it.
func (a *API) webView() *apiv1.Web {
	if a.Web == nil {
		return nil
	}
	view := &apiv1.Web{Domain: a.Web.Domain}
	if a.Web.CA != nil {
		view.CA = a.Web.CA()
	}
	return view
}

// appsView lists a cluster's web apps.
func (a *API) appsView(c cluster.Cluster) (apps []apiv1.WebApp) {
	for _, app := range c.Spec.Apps() {
		view := apiv1.WebApp{Name: app.Name, Node: app.Node, Port: app.Port}
		if a.Web != nil {
			view.URL = a.Web.URL(c, app.Name)
		}
		apps = append(apps, view)
	}
	return apps
}

func (a *API) openApp(ctx context.Context, in *apiv1.OpenAppInput) (*output[apiv1.Opened], error) {
	c, app, err := a.appOf(ctx, in.Cluster, in.App)
	if err == nil && a.Web == nil {
		err = conflict("this site has no door for web apps", "its operator opens one with `muster serve --web ADDRESS`")
	}
	if err == nil {
		_, _, err = a.reachable(ctx, c.ID, app.Node)
	}
	if err != nil {
		return nil, err
	}
	code := web.NewCode()
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Opened) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		*out = apiv1.Opened{URL: web.SignIn(*a.Web, c, app.Name, code), App: app.Name, ExpiresAt: now.Add(web.CodeLife)}
		return person.AddWebLogin(ctx, tx, person.HashToken(code), person.WebLogin{Token: callerOf(ctx).Token, Cluster: c.ID,
			App: app.Name, Browser: askedOf(ctx).cookie}, web.CodeLife)
	})
}

// appOf finds a cluster and its app of that name.
func (a *API) appOf(ctx context.Context, ref, name string) (c cluster.Cluster, app spec.App, err error) {
	c, err = core.Look(ctx, a.DB, func(tx *core.Tx) (cluster.Cluster, error) { return a.find(ctx, tx, ref) })
	if err != nil {
		return c, app, err
	}
	apps := c.Spec.Apps()
	i := slices.IndexFunc(apps, func(app spec.App) bool { return app.Name == name })
	if i >= 0 {
		return c, apps[i], nil
	}
	hint := "its file names none; write access: {apps: [{name: jupyter, port: 8888}]}"
	if len(apps) > 0 {
		names := lists.Map(apps, func(app apiv1.App) string { return app.Name })
		hint = "it has " + strings.Join(names, ", ")
	}
	return c, app, notFound(fmt.Sprintf("cluster %s has no app %q", c.Name, name), hint)
}
