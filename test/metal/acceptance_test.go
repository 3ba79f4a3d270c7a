package metal_test

import (
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
)

// TestAMachineOnASlowCableIsReplaced has a machine that boots as it should and whose cable then carries 256 kbit/s, as one
// that has come loose would: what it is to measure with its head takes too long.
func TestAMachineOnASlowCableIsReplaced(t *testing.T) {
	testall.Only(t)
	// Its site judges machines of a rack, too, although they are virtual. Bounds are wide: their CPUs are shared. An agent on a
	// slow cable may be silent while what it measures fills that.
	judging := strings.Replace(site, "boot: 60s", "boot: 60s, silence: 5m", 1) +
		"acceptance: {judge: all, passes: 3, deviations: 1, slow_below: 5%, network_slow_below: 5%}\n"
	y := testbedOf(t, judging, 5, "--power", "ipmi", "--memory", "2GiB")
	y.inspected(5)
	y.Run("create", "-f", y.File("fast.yaml", "name: fast\nisolation: metal\nnodes: 3\n"), "--wait", "--timeout", "6m")
	health := y.Run("machines", "health")
	if strings.Count(health, "passed") != 4 { // and the head
		t.Errorf("four nodes have been tested, and not in\n%s", health)
	}

	y.Run("scale", "fast", "4")
	var c cluster
	machine := ""
	// While its agent joins it fetches what it needs, and would be silent for as long as that takes: then it is lost, not slow.
	y.Eventually(10*time.Minute, "n4 is measured", func() bool {
		y.Get(&c, "get", "fast")
		for _, n := range c.Nodes {
			if n.Name == "n4" && n.Phase == "testing" {
				machine = n.Machine
			}
		}
		return machine != ""
	})
	y.Run("rack", "slow", machine)
	y.Eventually(10*time.Minute, machine+" is set apart", func() bool { return y.machine(machine).Phase == "quarantined" })
	if why := y.machine(machine).Reason; !strings.Contains(why, "did not pass its test (measures itself)") {
		t.Errorf("%s is set apart for another reason than that it measures for too long: %s", machine, why)
	}
	y.Eventually(10*time.Minute, "another machine has taken the place of n4", func() bool {
		y.Get(&c, "get", "fast")
		return c.Phase == "ready" && len(c.Nodes) == 5 && c.Nodes[4].Name == "n4" && c.Nodes[4].Machine != machine
	})
	if out := y.Run("ssh", "fast", "--", "srun -w n4 hostname"); out != "n4\n" {
		t.Errorf("%q", out)
	}
	y.Run("rack", "heal", machine)
	y.Run("machines", "inspect", machine, "--wait", "--timeout", "5m")
	y.Run("delete", "fast", "--wait", "--timeout", "5m")
	y.allOff(5)
}
