package serve

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"muster/internal/admission"
	"muster/internal/door/web"
	"muster/internal/kit/pattern"
)

// Web is what `muster serve` was told of the door for web apps.
type Web struct {
	Listen      string // address; "" for no door
	Domain      string // below which apps are, perhaps with the port that browsers see
	Certificate string // PEM files; both empty for an authority of the site's own
	Key         string
}

var domainName = pattern.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

func (w Web) listen() (net.Listener, error) {
	switch {
	case (w.Certificate == "") != (w.Key == ""):
		return nil, errors.New("--web-cert and --web-key belong together")
	case w.Listen == "":
		return nil, nil
	}
	if _, _, err := w.name(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", w.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for users of web apps: %w", err)
	}
	return l, nil
}

// name is the domain, with the port that browsers see if it says one.
func (w Web) name() (domain, port string, err error) {
	domain = strings.ToLower(w.Domain)
	if host, after, err := net.SplitHostPort(domain); err == nil {
		domain, port = host, after
	}
	const most = 180 // leaves room for a label before it
	if _, err := strconv.ParseUint(cmp.Or(port, "443"), 10, 16); err != nil || len(domain) > most ||
		!domainName.MatchString(domain) {
		return "", "", fmt.Errorf("--web-domain: %q is no domain such as apps.example.org, or apps.example.org:8443", w.Domain)
	}
	return domain, port, nil
}

// place is where browsers find the door: at the listener's port, unless the domain names another one.
func (w Web) place(l net.Listener) (web.Place, error) {
	domain, port, err := w.name()
	if err == nil && port == "" {
		_, port, err = net.SplitHostPort(l.Addr().String())
	}
	if port == "443" {
		port = ""
	}
	return web.Place{Domain: domain, Port: port}, err
}

// newWebDoor makes the door for web apps; nil if there is to be none.
func (k *controller) newWebDoor() (*web.Door, error) {
	if k.web == nil {
		return nil, nil
	}
	place, err := k.Web.place(k.web)
	if err != nil {
		return nil, err
	}
	config := web.Config{DB: k.db, Dialer: k.shared, Log: k.Log, NewID: admission.NewID, Requests: k.budget.Web / 2,
		Meter: k.telemetry}
	if k.Web.Certificate != "" {
		config.Certificate, err = web.Files(k.Web.Certificate, k.Web.Key, k.Log)
	} else {
		authority, made := k.authority.Web(place.Domain)
		if made != nil {
			return nil, made
		}
		place.CA = authority.PEM
		config.Certificate = web.Own(place, authority)
	}
	config.Place = place
	return web.New(config), err
}
