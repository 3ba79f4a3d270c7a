package web

import (
	"net"
	"strings"

	"muster/internal/kinds/cluster"
	"muster/internal/kit/pattern"
)

// Place is where users find the door.
type Place struct {
	Domain string        // apps are below it, one label each
	Port   string        // as browsers see it; "" for that of HTTPS
	CA     func() string // PEM of the authority that browsers have to be told of; nil if they know the door's
}

// mostLabel is the longest label of a DNS name.
const mostLabel = 63

// separator stands between the words of a label. No word of it may hold one, so that no two apps have one address.
const separator = "--"

// label is what one word of a DNS name may be.
var label = pattern.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Host is the host name of an app: its own, as browsers let pages of one host touch each other. It is
// APP--CLUSTER--PROJECT, or APP--ID for names that would be no label or could be mistaken.
func (p Place) Host(c cluster.Cluster, app string) string {
	name := strings.Join([]string{app, c.Name, c.Project}, separator)
	if len(name) > mostLabel || !label.MatchString(c.Project) || strings.Contains(c.Name+c.Project, separator) {
		name = app + separator + c.ID
	}
	return name + "." + p.Domain
}

// URL is the address of an app.
func (p Place) URL(c cluster.Cluster, app string) string { return p.origin(p.Host(c, app)) + "/" }

func (p Place) origin(host string) string {
	if p.Port != "" {
		host = net.JoinHostPort(host, p.Port)
	}
	return "https://" + host
}

// asked is the app that a Host header may mean.
type asked struct {
	host string // without the port, in lower case
	app  string
	ref  string // the cluster as `muster open` takes it; an ID in addresses that have one
}

// parse reads a Host header; false if it is of no app.
func (p Place) parse(header string) (asked, bool) {
	host := strings.ToLower(header)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	first, ours := strings.CutSuffix(host, "."+p.Domain)
	if !ours || len(first) > mostLabel || !label.MatchString(first) {
		return asked{}, false
	}
	a := asked{host: host}
	switch words := strings.Split(first, separator); {
	case len(words) == 3:
		a.app, a.ref = words[0], words[2]+"/"+words[1]
	case len(words) == 2:
		a.app, a.ref = words[0], words[1]
	default:
		return asked{}, false
	}
	return a, a.app != ""
}
