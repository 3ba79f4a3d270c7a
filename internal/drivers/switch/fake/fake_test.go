package fake_test

import (
	"testing"

	"muster/internal/drivers/switch/fake"
	"muster/internal/drivers/switch/switchtest"
)

func TestItKeepsTheContract(t *testing.T) {
	switchtest.Test(t, func(*testing.T) switchtest.Subject {
		var ports []string
		for _, n := range switchtest.Names() {
			ports = append(ports, "p-"+n)
		}
		f := fake.New(ports...)
		return switchtest.Subject{Switch: f, Hear: f.Hear}
	})
}
