package fake_test

import (
	"testing"

	switches "muster/internal/drivers/switch"
	"muster/internal/drivers/switch/fake"
	"muster/internal/drivers/switch/switchtest"
	"muster/internal/inventory"
)

func TestItKeepsTheContract(t *testing.T) {
	switchtest.Test(t, func(*testing.T) switchtest.Subject {
		var ports []string
		for _, n := range switchtest.Names() {
			ports = append(ports, "p-"+n)
		}
		f := fake.New(ports...)
		factory := switches.Factory{Name: "fake", Isolates: true, Open: func(inventory.Network) switches.Switch { return f }}
		return switchtest.Subject{Factory: factory, Switch: f, Hear: f.Hear}
	})
}
