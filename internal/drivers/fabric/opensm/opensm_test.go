package opensm

import (
	"testing"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/drivers/fabric/opensm/ibsim"
	"muster/internal/kit/testall"
)

func TestOpenSMKeepsTheContract(t *testing.T) {
	testall.Only(t)
	fabrictest.Contract(t, func(t *testing.T) fabrictest.Fixture {
		r := newRig(t, 9, 8, 1, 1)
		return fabrictest.Fixture{Driver: r.driver, Manager: fabrictest.HostPort(0), Ports: ports(1, 9),
			Room: ibsim.TableSize - 2, Link: r.link, Write: r.write}
	})
}
