// Package fabrics is what drivers of InfiniBand fabrics have in common beside fabric.Driver: how one is declared (Factory) and
// found (Registry), and who configures what of it (Directives). Each driver is a folder below it; fabrictest is the contract that
// all pass.
//
// What enters: what operators say of a fabric through the API, and root in the site file. What leaves: a driver, or an error
// that says what may not be said, and who may say it where.
package fabrics

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/fabric"
	"muster/internal/kit/lists"
)

// Factory declares a driver. It is data; a driver's folder has a function that returns its own, and the list of drivers calls
// it.
type Factory struct {
	Name     string // as fabrics name it
	Settings []Setting
	// Open makes the driver from what it is told, which holds no other settings than these. It connects to nothing, and reads
	// what the settings name once, to say what is wrong with it.
	Open func(t Directives) (fabric.Driver, error)
}

// Setting is something that a driver is told.
type Setting struct {
	Name string
	// File is the usual path of a file on managers' hosts, where the setting is one. Only root names another. "": it is none.
	File string
}

// Registry is the drivers that there are. The first is what a fabric gets that names none. Nothing changes it.
type Registry []Factory

// Names lists the drivers, in their order.
func (r Registry) Names() []string {
	return lists.Map(r, func(f Factory) string { return f.Name })
}

// Open makes the driver of a name. It connects to nothing; its errors are errors of what is told.
func (r Registry) Open(name string, t Directives) (fabric.Driver, error) {
	i := slices.IndexFunc(r, func(f Factory) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no driver %q; there are %s", name, strings.Join(r.Names(), ", "))
	}
	t.settings = r[i].Settings
	err := t.check()
	if err == nil {
		var driver fabric.Driver
		if driver, err = r[i].Open(t); err == nil {
			return driver, nil
		}
	}
	return nil, fmt.Errorf("driver %s: %w", name, err)
}
