package web

import (
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kit/limit"
	"muster/internal/kit/printable"
	"muster/internal/spec"
)

// refusal is what is told instead of an app's answer.
type refusal struct {
	status int
	title  string
	text   string
	run    string // a command that helps
	hint   string
}

func (p refusal) Error() string { return p.title }

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:4em auto;padding:0 1em}pre{background:#eee;color:#111;padding:.7em 1em;overflow:auto}</style></head>
<body><h1>{{.Title}}</h1>{{with .Text}}<p>{{.}}</p>{{end}}{{with .Run}}<pre>{{.}}</pre>{{end}}{{with .Hint}}<p>{{.}}</p>{{end}}</body></html>
`))

// write answers with a page for browsers, and with lines of text for programs.
func (p refusal) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	switch p.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Muster realm="muster open"`) // no scheme that a browser would ask a password for
		h.Set("Connection", "close")                            // callers who are not authenticated keep no connections
	case http.StatusMisdirectedRequest:
		h.Set("Connection", "close")
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "10")
	case http.StatusTooManyRequests:
		h.Set("Retry-After", "2")
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(p.status)
		for _, line := range []string{p.title, p.text, p.run, p.hint} {
			if line != "" {
				_, _ = fmt.Fprintln(w, printable.Line(line)) // for a terminal
			}
		}
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.status)
	_ = page.Execute(w, map[string]string{"Title": p.title, "Text": p.text, "Run": p.run, "Hint": p.hint})
}

// tooMany is told to who has too much open, or when all together have.
func tooMany(over *limit.Over) refusal {
	status := http.StatusServiceUnavailable
	if over.Own {
		status = http.StatusTooManyRequests
	}
	return refusal{status: status, title: "Too many requests at once", text: over.Text + ".",
		hint: strings.ToUpper(over.Hint[:1]) + over.Hint[1:] + "."}
}

// fromElsewhere is told to pages of other sites, and of other apps.
var fromElsewhere = refusal{status: http.StatusForbidden, title: "Another site's page may not do this",
	hint: "Open the app by its own address."}

func misdirected(p Place) refusal {
	return refusal{status: http.StatusMisdirectedRequest, title: "There is no app of this name",
		text: "Apps are at APP--CLUSTER--PROJECT." + p.Domain + ".",
		run:  "muster open CLUSTER APP", hint: "opens one, and signs your browser in."}
}

// notSignedIn is the answer for apps that exist and for those that do not: it reveals nothing.
func notSignedIn(a asked) refusal {
	return refusal{status: http.StatusUnauthorized, title: "Sign in first",
		text: "Your browser is not signed in to this app, or no longer. Run this where you use Muster:",
		run:  "muster open " + a.ref + " " + a.app}
}

func deadCode(a asked) refusal {
	return refusal{status: http.StatusUnauthorized, title: "This address has been used, or is too old",
		text: "It signs one browser in, once, within a minute. Get another one:",
		run:  "muster open " + a.ref + " " + a.app}
}

func notAllowed(c cluster.Cluster) refusal {
	return refusal{status: http.StatusForbidden, title: "You may not enter cluster " + c.Name,
		text: "It takes a member or owner of project " + c.Project + ", and one that the cluster's file admits.",
		hint: "The project's owner can add you."}
}

func noSuchApp(c cluster.Cluster, app string) refusal {
	return refusal{status: http.StatusNotFound, title: fmt.Sprintf("Cluster %s has no app %s", c.Name, app),
		hint: "Its file names its apps under access.apps."}
}

func paused(c cluster.Cluster) refusal {
	return refusal{status: http.StatusServiceUnavailable, title: fmt.Sprintf("Cluster %s is paused", c.Name),
		text: "It is since " + c.PhaseAt.Format("2006-01-02 15:04 MST") + ". This brings it back:",
		run:  "muster resume " + c.Project + "/" + c.Name + " --wait"}
}

func notReady(c cluster.Cluster, app spec.App, n node.Node) refusal {
	p := refusal{status: http.StatusServiceUnavailable, title: fmt.Sprintf("Node %s of cluster %s is not ready", app.Node,
		c.Name), text: fmt.Sprintf("The cluster is %s, the node %s. This shows the progress:", c.Phase, n.Phase),
		run: "muster describe " + c.Project + "/" + c.Name}
	if n.ID == "" {
		p.title, p.text = fmt.Sprintf("Cluster %s has no node %s now", c.Name, app.Node),
			fmt.Sprintf("The cluster is %s. This lists its nodes:", c.Phase)
	}
	return p
}

func nothingListens(v *visit) refusal {
	return refusal{status: http.StatusBadGateway, title: fmt.Sprintf("Nothing listens on port %d of node %s", v.app.Port,
		v.node.Name),
		text: fmt.Sprintf("Start %s there, and let it listen on all addresses (0.0.0.0) rather than on localhost only.",
			v.app.Name), run: "muster ssh " + v.cluster.Project + "/" + v.cluster.Name}
}

func tooSlow(v *visit) refusal {
	return refusal{status: http.StatusGatewayTimeout, title: fmt.Sprintf("%s does not answer", v.app.Name),
		text: fmt.Sprintf("Port %d of node %s took the request and said nothing, or could not be reached in time.", v.app.Port,
			v.node.Name)}
}

func brokenApp(v *visit) refusal {
	return refusal{status: http.StatusBadGateway, title: fmt.Sprintf("%s broke off", v.app.Name),
		text: fmt.Sprintf("Port %d of node %s speaks no HTTP, or closed the connection.", v.app.Port, v.node.Name)}
}
