// Package patch is a toy switch: a patch panel in memory. It is here to show what a new switch takes: this folder, and one line
// in the list of drivers.
package patch

import (
	switches "muster/internal/drivers/switch"
	"muster/internal/drivers/switch/fake"
	"muster/internal/inventory"
)

// Factory declares the driver. The panel has these ports on every network.
func Factory(ports ...string) switches.Factory {
	return switches.Factory{
		Name: "patch", Isolates: true,
		Open: func(inventory.Network) switches.Switch { return fake.New(ports...) },
	}
}
