package web

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"muster/internal/kit/pattern"
)

// Entrance is what a controller was told of its door.
type Entrance struct {
	Listen      string // address; "" for no door
	Domain      string // below which apps are, perhaps with the port that browsers see
	Certificate string // PEM files; both empty for an authority of the site's own
	Key         string
}

var domainName = pattern.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// Open listens; nil if there is to be no door.
func (e Entrance) Open() (net.Listener, error) {
	switch {
	case (e.Certificate == "") != (e.Key == ""):
		return nil, errors.New("--web-cert and --web-key belong together")
	case e.Listen == "":
		return nil, nil
	}
	if _, _, err := e.name(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", e.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for users of web apps: %w", err)
	}
	return l, nil
}

// name is the domain, with the port that browsers see if it says one.
func (e Entrance) name() (domain, port string, err error) {
	domain = strings.ToLower(e.Domain)
	if host, after, err := net.SplitHostPort(domain); err == nil {
		domain, port = host, after
	}
	const most = 180 // leaves room for a label before it
	if _, err := strconv.ParseUint(cmp.Or(port, "443"), 10, 16); err != nil || len(domain) > most ||
		!domainName.MatchString(domain) {
		return "", "", fmt.Errorf("--web-domain: %q is no domain such as apps.example.org, or apps.example.org:8443", e.Domain)
	}
	return domain, port, nil
}

// Place is where browsers find the door: at the listener's port, unless the domain names another one.
func (e Entrance) Place(l net.Listener) (Place, error) {
	domain, port, err := e.name()
	if err == nil && port == "" {
		_, port, err = net.SplitHostPort(l.Addr().String())
	}
	if port == "443" {
		port = ""
	}
	return Place{Domain: domain, Port: port}, err
}
