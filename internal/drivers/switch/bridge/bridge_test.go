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
		s := bridge.Factory().Open(inventory.Network{Namespace: y.Namespace, Interface: switchtest.CommonBridge})
		return switchtest.Subject{Factory: bridge.Factory(), Switch: s, Testbed: y}
	})
}
