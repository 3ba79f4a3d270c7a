// Package none is the switch that Muster may not touch: all ports are in one segment.
//
// What enters: the same as in other switches. What leaves: nothing.
package none

import (
	"context"

	switches "muster/internal/drivers/switch"
	"muster/internal/inventory"
)

// Factory declares the driver, which keeps nothing apart.
func Factory() switches.Factory {
	return switches.Factory{Name: "none", Open: func(n inventory.Network) switches.Switch { return none{n.Interface} }}
}

type none struct{ bridge string }

func (none) Put(context.Context, switches.Port, switches.Segment) error { return nil }
func (none) Ports(context.Context) (map[string]switches.Segment, error) { return nil, nil }
func (none) Isolate(context.Context, []string) ([]string, error)        { return nil, nil }
func (n none) Open(context.Context, switches.Segment) (string, error)   { return n.bridge, nil }
func (none) Close(context.Context, switches.Segment) error              { return nil }
func (none) Opened(context.Context) ([]switches.Segment, error)         { return nil, nil }
