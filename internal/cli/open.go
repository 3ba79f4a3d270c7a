package cli

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/lists"
)

func (a *app) open() *cobra.Command {
	c := &cobra.Command{
		Use:   "open NAME [APP]",
		Short: "Open a cluster's web app in your browser",
		Long: `Print an address that signs a browser in to a cluster's web app, and open it if there is a browser. The address works once,
within a minute; the browser then stays signed in for 12 hours, or until your token or login ends, or you may no longer
enter the cluster. A cluster's file names its apps under access.apps. APP may be left out if there is one.

With --ca, print the certificate of the site's own CA, which browsers must trust if the web door has no publicly trusted
certificate. It is valid for the site's apps only.`,
		Example: `  muster open cfd jupyter
  muster open cfd --no-browser
  muster open --ca > muster-ca.pem`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	silent := c.Flags().Bool("no-browser", false, "only print the address")
	ca := c.Flags().Bool("ca", false, "print the CA certificate that browsers must trust")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if *ca != (len(args) == 0) {
			return usage("give either the name of a cluster, or --ca")
		}
		if *ca {
			return a.printWebCA(ctx)
		}
		app, err := a.whichApp(ctx, args)
		if err != nil {
			return err
		}
		opened, raw, err := apiv1.OpenApp.Call(ctx, a, apiv1.OpenAppInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]},
			App: app})
		if err != nil {
			return err
		}
		if err := output.print(a.out, raw, func() { a.out.line("%s", opened.URL) }); err != nil {
			return err
		}
		if live(a.out) && !*silent && *output == asTable {
			a.browse(ctx, opened.URL)
		}
		return nil
	})
}

// whichApp is the app that is named, or the only one.
func (a *app) whichApp(ctx context.Context, args []string) (string, error) {
	if len(args) == 2 {
		return args[1], nil
	}
	cluster, _, err := apiv1.GetCluster.Call(ctx, a, apiv1.ClusterRef{Cluster: args[0]})
	if err != nil {
		return "", err
	}
	names := lists.Map(cluster.Apps, func(app apiv1.WebApp) string { return app.Name })
	switch len(names) {
	case 0:
		return "", &problemError{Problem: apiv1.Problem{Code: "not-found",
			Detail: fmt.Sprintf("cluster %s has no web apps (its file names them under access.apps)", cluster.Name)}}
	case 1:
		return names[0], nil
	}
	return "", usage("cluster %s has several web apps: name one of %s", cluster.Name, strings.Join(names, ", "))
}

func (a *app) printWebCA(ctx context.Context) error {
	site, _, err := apiv1.GetSite.Call(ctx, a, apiv1.Nothing{})
	if err != nil {
		return err
	}
	switch {
	case site.Web == nil:
		return fmt.Errorf("this site has no door for web apps (its operator opens one with `muster serve --web ADDRESS`)")
	case site.Web.CA == "":
		a.say("the web door has a certificate from another CA: there is none of the site's own to trust")
		return nil
	}
	rest, found := []byte(site.Web.CA), false
	for block, left := pem.Decode(rest); block != nil; block, left = pem.Decode(left) {
		a.out.text(string(pem.EncodeToMemory(block)))
		found = true
	}
	if !found {
		return errors.New("the controller's answer has no certificate")
	}
	return nil
}

// browse opens an address in a browser, if there is one. The address is a secret for some minutes and every user of a host can
// read the arguments of a process: the browser gets a file that leads there, which no other user can read.
func (a *app) browse(ctx context.Context, address string) {
	program, err := exec.LookPath("xdg-open")
	if err != nil {
		if program, err = exec.LookPath("open"); err != nil { // macOS
			return
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return
	}
	path := filepath.Join(cache, "muster", "open.html")
	text := `<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url=` +
		html.EscapeString(address) + `">`
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil || os.WriteFile(path, []byte(text), 0o600) != nil {
		return
	}
	if err := exec.CommandContext(ctx, program, path).Run(); err != nil {
		a.say("no browser opened it: %v", err)
	}
}

func (a *app) printApps(c apiv1.Cluster) {
	t := newTable("APP", "NODE", "PORT", "ADDRESS")
	for _, app := range c.Apps {
		t.row(app.Name, app.Node, fmt.Sprint(app.Port), cmp.Or(app.URL, "this site has no door for web apps"))
	}
	t.printBelow(a.out)
}
