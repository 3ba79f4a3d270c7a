package bridge_test

import (
	"testing"

	"muster/internal/drivers/switch/bridge"
	"muster/internal/drivers/switch/switchtest"
	"muster/internal/inventory"
)

func TestItKeepsTheContract(t *testing.T) {
	switchtest.Test(t, func(t *testing.T) switchtest.Subject {
		y := switchtest.NewTestbed(t, switchtest.Names()...)
		return switchtest.Subject{Switch: bridge.Factory().Open(inventory.Network{Namespace: y.Namespace,
			Interface: switchtest.CommonBridge}), Testbed: y}
	})
}
