package serve

import (
	"muster/internal/core"
	"muster/internal/door/web"
)

// newWebDoor makes the door for web apps; nil if there is to be none.
func (k *controller) newWebDoor() (*web.Door, error) {
	if k.web == nil {
		return nil, nil
	}
	place, err := k.Web.Place(k.web)
	if err != nil {
		return nil, err
	}
	config := web.Config{DB: k.db, Dialer: k.shared, Log: k.Log, NewID: core.NewID, Requests: k.budget.Web / 2,
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
