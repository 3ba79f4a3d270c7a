package metal_test

import (
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// onePool lets machines be whole or hypervisors. A machine that is emulated emulates its guests, so all is slow.
const onePool = `
site: home
defaults: {project: default, image: debian13-hpc, class: local, head_class: service}
limits: {boot: 5m, hypervisor_idle: 10s}
classes:
  - {name: local, select: ["substrate = local"]}
  - {name: service, select: ["substrate = local"]}
  - {name: metal, select: ["substrate = metal"]}
  - {name: parts, select: ["substrate = metal"], hypervisor: true, vm: {cpus: 1, memory: 768MiB}}
`

// hypervisors is a testbed of inspected machines that can hold a guest or two each, and what tells the time since they are there.
func hypervisors(t *testing.T, site string, machines int) (y *testbed, tell func(what string)) {
	t.Helper()
	y = testbedWith(t, func(r *rig.Rig) {
		r.Site = r.File("site.yaml", site)
		r.Import("debian12-hypervisor")
	}, machines, "--power", "ipmi", "--memory", "3GiB")
	y.inspected(machines)
	began := time.Now()
	return y, func(what string) { t.Logf("%6.1f s: %s", time.Since(began).Seconds(), what) }
}

// TestAMachineOfTheRackTurnsIntoAHypervisorAndBack places a guest on a machine, which boots for it, waits until the guest's
// agent is heard over the cluster's network, and takes it away again.
func TestAMachineOfTheRackTurnsIntoAHypervisorAndBack(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	y, tell := hypervisors(t, onePool, 1)
	y.Run("machines", "add", "--local", "1", "--wait") // the place of another head

	y.Run("create", "-f", y.File("parts.yaml", "name: parts\nqueues: [{name: cpu, class: parts, nodes: 1}]\n"))
	y.Eventually(10*time.Minute, "rack-1 is a hypervisor", func() bool { return y.machine("rack-1").Phase == "in-use" })
	tell("a hypervisor")
	out := y.Muster("create", "-f", y.File("whole.yaml", "name: whole\nisolation: metal\nnodes: 1\n"))
	if out.Code == 0 || !strings.Contains(out.Err, "class metal: 1 asked, 0 free") {
		t.Errorf("a machine with guests was given to a node: %+v", out)
	}
	var c cluster
	y.Eventually(25*time.Minute, "the guest's agent is here", func() bool {
		y.Get(&c, "get", "parts")
		for _, n := range c.Nodes {
			if n.Name != "head" {
				return n.Machine == "rack-1-g1" && (n.Phase == "joining" || n.Phase == "testing" || n.Phase == "ready")
			}
		}
		return false
	})
	tell("its guest's agent is here")
	t.Log(y.Run("machines", "list"))

	y.Run("delete", "parts", "--wait", "--timeout", "5m")
	tell("its guest is gone")
	y.allOff(1)
	tell("off, inspected and erased")
	for _, said := range []string{"becomes a hypervisor, for 1 guest", "is a hypervisor", "was without guests for 10s",
		"was switched off and seen off", "is a whole machine again"} {
		y.Until("told that it "+said, func() bool { return strings.Contains(y.Run("events"), said) })
	}
	if m := y.machine("rack-1"); m.Release == nil || !m.Release.Clean {
		t.Errorf("after its release: %+v", m)
	}
}
