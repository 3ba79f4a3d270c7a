package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/spec"
	"muster/internal/store"
	"muster/internal/webdoor"
)

// Web is the door for web apps.
type Web struct {
	Domain string `json:"domain" doc:"apps are below it"`
	CA     string `json:"ca,omitempty" doc:"PEM of the authority that browsers have to trust; absent if they know the door's"`
}

// WebApp is a web application of a cluster.
type WebApp struct {
	Name string `json:"name"`
	Node string `json:"node"`
	Port int    `json:"port"`
	URL  string `json:"url,omitempty" doc:"its address, for browsers that have signed in; absent if the site has no door for web apps"`
}

// Opened is what signs a browser in to an app.
type Opened struct {
	URL       string    `json:"url" doc:"open it in a browser; it works once"`
	ExpiresAt time.Time `json:"expires_at"`
	App       string    `json:"app"`
}

func (a *API) registerApps(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "open-app", Method: http.MethodPost, Path: "/v1/clusters/{cluster}/apps/{app}/open", Summary: "Get an address that signs a browser in to a web app, once",
		Errors: []int{404, 409}, Tags: []string{"access"}}, a.openApp)
}

// webView is the door as the site tells of it.
func (a *API) webView() *Web {
	if a.Web == nil {
		return nil
	}
	view := &Web{Domain: a.Web.Domain}
	if a.Web.CA != nil {
		view.CA = a.Web.CA()
	}
	return view
}

// appsView lists a cluster's web apps.
func (a *API) appsView(c store.Cluster) (apps []WebApp) {
	for _, app := range c.Spec.Apps() {
		view := WebApp{Name: app.Name, Node: app.Node, Port: app.Port}
		if a.Web != nil {
			view.URL = a.Web.URL(c, app.Name)
		}
		apps = append(apps, view)
	}
	return apps
}

func (a *API) openApp(ctx context.Context, in *struct {
	ClusterRef
	App string `path:"app" doc:"its name in the cluster's file" maxLength:"63"`
}) (*struct{ Body Opened }, error) {
	c, app, err := a.appOf(ctx, in.Cluster, in.App)
	if err == nil && a.Web == nil {
		err = problem(http.StatusConflict, "conflict", "this site has no door for web apps", "its operator opens one with `muster serve --web ADDRESS`")
	}
	if err == nil {
		_, _, err = a.reachable(ctx, c.ID, app.Node)
	}
	if err != nil {
		return nil, a.tell(err, nil)
	}
	code := webdoor.NewCode()
	out := &struct{ Body Opened }{Opened{URL: webdoor.SignIn(*a.Web, c, app.Name, code), App: app.Name}}
	err = a.DB.Update(ctx, func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		out.Body.ExpiresAt = now.Add(webdoor.CodeLife)
		return tx.AddWebLogin(ctx, store.HashToken(code), store.WebLogin{Token: callerOf(ctx).Token, Cluster: c.ID, App: app.Name}, webdoor.CodeLife)
	})
	return out, a.tell(err, nil)
}

// appOf finds a cluster and its app of that name.
func (a *API) appOf(ctx context.Context, ref, name string) (c store.Cluster, app spec.App, err error) {
	err = a.DB.View(ctx, func(tx *store.Tx) (err error) {
		c, err = a.find(ctx, tx, ref)
		return err
	})
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
		var names []string
		for _, app := range apps {
			names = append(names, app.Name)
		}
		hint = "it has " + strings.Join(names, ", ")
	}
	return c, app, problem(http.StatusNotFound, "not-found", fmt.Sprintf("cluster %s has no app %q", c.Name, name), hint)
}
