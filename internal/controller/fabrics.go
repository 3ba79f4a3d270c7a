package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"muster/internal/fabric"
	"muster/internal/private"
	"muster/internal/store"
)

// fabrics opens the drivers of fabrics from their rows, and keeps each for as long as what it is told stays the same. It is
// lifecycle.Fabrics.
type fabrics struct {
	scratch string // where drivers may keep what nobody misses
	signals private.Dir
	secrets private.Dir
	site    map[string]map[string]string // what root says, by the fabric's name

	mu   sync.Mutex
	open map[string]opened // by the fabric's ID
}

type opened struct {
	told   string
	driver fabric.Driver
}

func newFabrics(d dir, site map[string]map[string]string) *fabrics {
	return &fabrics{scratch: d.fabrics(), signals: private.Dir(d.signals()), secrets: private.Dir(d.secrets()), site: site, open: map[string]opened{}}
}

// openers are the drivers that there are.
func openers() map[string]func(scratch string, t telling) (fabric.Driver, error) {
	return map[string]func(string, telling) (fabric.Driver, error){
		"opensm": openOpenSM,
		"ufm":    openUFM,
	}
}

// Driver is that of a fabric as it stands in its row.
func (o *fabrics) Driver(f store.Fabric) (fabric.Driver, error) {
	told, err := json.Marshal([]any{f.Driver, f.Config, f.Managers})
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if is, there := o.open[f.ID]; there && is.told == string(told) {
		return is.driver, nil
	}
	driver, err := o.opened(f, true)
	if err == nil {
		o.open[f.ID] = opened{string(told), driver}
	}
	return driver, err
}

func (o *fabrics) opened(f store.Fabric, fromRows bool) (fabric.Driver, error) {
	open, known := openers()[f.Driver]
	if !known {
		return nil, fmt.Errorf("there is no driver %q; there are %s", f.Driver, strings.Join(slices.Sorted(maps.Keys(openers())), ", "))
	}
	driver, err := open(o.scratch, telling{fabric: f, site: o.site[f.Name], given: f.Config, signals: o.signals, secrets: o.secrets, fromRows: fromRows})
	if err != nil {
		return nil, fmt.Errorf("driver %s: %w", f.Driver, err)
	}
	return driver, nil
}

// check says what is wrong with what a fabric's driver is told, before there is a row.
func (o *fabrics) check(f store.Fabric) error {
	_, err := o.opened(f, false)
	return err
}
