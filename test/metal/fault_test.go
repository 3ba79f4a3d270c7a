package metal_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
)

// TestMachinesThatFailAreReplacedWhileSparesLast breaks four of seven machines for good, each in another way, and hangs a
// fifth on its way, which a power cycle cures; five nodes are asked for. All have BMCs: a machine whose firmware has given up and
// that is woken by packets alone cannot be switched off.
func TestMachinesThatFailAreReplacedWhileSparesLast(t *testing.T) {
	testall.Only(t)
	y := newTestbed(t, 7, "--power", "ipmi", "--memory", "2GiB")
	y.inspected(7)
	faults := map[string]string{"rack-1": "no-power", "rack-2": "no-dhcp", "rack-3": "slow", "rack-4": "corrupt"}
	for machine, fault := range faults {
		y.Run("rack", fault, machine)
	}
	y.Run("create", "-f", y.File("broken.yaml", "name: broken\nisolation: metal\nnodes: 5\n"))
	hasKernel := regexp.MustCompile(`n5 +has its kernel`)
	y.Eventually(10*time.Minute, "rack-5 has its kernel, so that it can hang on its way", func() bool {
		return hasKernel.MatchString(y.Run("events", "broken"))
	})
	y.Run("rack", "hang", "rack-5")

	for name, fault := range faults {
		y.Eventually(10*time.Minute, name+" is given up", func() bool { return y.machine(name).Phase == "quarantined" })
		m := y.machine(name)
		t.Logf("%s (%s): %s", name, fault, m.Reason)
		if m.Reason == "" {
			t.Errorf("%s is quarantined without a reason", name)
		}
	}
	var c cluster
	y.Eventually(10*time.Minute, "three nodes are ready, two of them on the spares", func() bool {
		y.Get(&c, "get", "broken")
		ready := 0
		for _, n := range c.Nodes {
			if n.Name != "head" && n.Phase == "ready" {
				ready++
				if faults[n.Machine] != "" {
					t.Fatalf("%s is ready on %s, which is broken", n.Name, n.Machine)
				}
			}
		}
		return ready == 3
	})
	if again := regexp.MustCompile(`n5 .*boots once more`); !again.MatchString(y.Run("events", "broken")) {
		t.Error("no event says that the machine that hung was tried again")
	}
	if !regexp.MustCompile(`quarantined|being prepared`).MatchString(c.Lacks) {
		t.Errorf("what the cluster lacks does not say why: %q", c.Lacks)
	}
	for name := range faults {
		y.Run("rack", "heal", name)
	}
	y.Eventually(10*time.Minute, "the healed machines come back by themselves and complete the cluster", func() bool {
		y.Get(&c, "get", "broken")
		return c.Phase == "ready"
	})
	y.Run("delete", "broken", "--wait", "--timeout", "5m")
	y.allOff(7)
}

// TestAMachineThatLosesItsPowerOnItsWayIsSwitchedOnAgain cuts the power under a kernel that starts.
func TestAMachineThatLosesItsPowerOnItsWayIsSwitchedOnAgain(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	y := newTestbed(t, 1, "--power", "ipmi")
	y.inspected(1)
	y.Run("create", "-f", y.File("cut.yaml", "name: cut\nisolation: metal\nnodes: 1\n"))
	hasKernel := regexp.MustCompile(`n1 +has its kernel`)
	y.Eventually(10*time.Minute, "rack-1 has its kernel", func() bool { return hasKernel.MatchString(y.Run("events", "cut")) })
	y.Run("rack", "kill", "rack-1")
	if got := y.power("rack-1"); got != "off" {
		t.Fatalf("after its power was cut rack-1 is %s", got)
	}
	var c cluster
	y.Eventually(10*time.Minute, "the cluster is ready", func() bool {
		y.Get(&c, "get", "cut")
		return c.Phase == "ready"
	})
	if len(c.Nodes) != 2 || c.Nodes[1].Machine != "rack-1" {
		t.Errorf("%+v", c.Nodes)
	}
	y.Run("delete", "cut", "--wait", "--timeout", "5m")
	y.allOff(1)
}

// allOff waits until every machine is available, and checks that it is off.
func (y *testbed) allOff(machines int) {
	y.Helper()
	for i := range machines {
		name := fmt.Sprintf("rack-%d", i+1)
		y.Eventually(10*time.Minute, name+" is available", func() bool { return y.machine(name).Phase == "available" })
		if got := y.power(name); got != "off" {
			y.Errorf("%s is available and %s", name, got)
		}
	}
}

// TestADiskThatCannotBeErasedKeepsItsMachineOut is the promise that no tenant's data is given away.
func TestADiskThatCannotBeErasedKeepsItsMachineOut(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	y := newTestbed(t, 1, "--power", "ipmi")
	y.inspected(1)
	y.Run("create", "-f", y.File("one.yaml", "name: one\nisolation: metal\nnodes: 1\n"), "--wait", "--timeout", "5m")
	y.Run("rack", "bad-disk", "rack-1")
	y.Run("delete", "one", "--wait", "--timeout", "5m")
	m := y.machine("rack-1")
	if m.Phase != "quarantined" || !strings.Contains(m.Reason, "not erased") || m.Release == nil || m.Release.Clean {
		t.Fatalf("a machine whose disk was not erased: %+v, %+v", m, m.Release)
	}
	y.Run("rack", "heal", "rack-1")
	y.Run("machines", "free", "rack-1", "--wait", "--timeout", "5m")
	if m = y.machine("rack-1"); m.Phase != "available" || !m.Release.Clean {
		t.Errorf("after it was healed: %+v, %+v", m, m.Release)
	}
}

// TestAControllerKilledInEveryStateStrandsNoMachine kills it as soon as a machine, or its node, is in each state.
func TestAControllerKilledInEveryStateStrandsNoMachine(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	y := newTestbed(t, 1, "--power", "redfish")
	state := func() string {
		m := y.machine("rack-1")
		if m.Phase != "in-use" && m.Phase != "reserved" {
			return m.Phase
		}
		var c cluster
		y.Get(&c, "get", "one")
		for _, n := range c.Nodes {
			if n.Name == "n1" {
				return "node " + n.Phase
			}
		}
		return m.Phase
	}
	killed := map[string]bool{}
	killIn := func(wanted ...string) {
		for _, want := range wanted {
			y.Eventually(10*time.Minute, "rack-1 is "+want, func() bool { return state() == want })
			time.Sleep(time.Duration(len(killed)%5) * 300 * time.Millisecond)
			y.controller.Kill()
			y.controller = y.Start()
			killed[want] = true
		}
	}
	killIn("inspecting", "available")
	y.Run("create", "-f", y.File("one.yaml", "name: one\nisolation: metal\nnodes: 1\n"))
	killIn("node booting", "node joining", "node ready")
	y.Run("delete", "one")
	killIn("inspecting", "available")
	y.Run("machines", "inspect", "rack-1")
	killIn("inspecting")
	y.allOff(1)
	y.Run("rack", "no-power", "rack-1")
	y.Run("machines", "inspect", "rack-1")
	killIn("quarantined")
	y.Run("rack", "heal", "rack-1")
	y.allOff(1)
	y.Run("machines", "maintain", "rack-1")
	killIn("maintenance")
	y.Run("machines", "free", "rack-1")
	y.allOff(1)
	t.Logf("killed in %d states", len(killed))
	y.Run("create", "-f", y.File("again.yaml", "name: again\nisolation: metal\nnodes: 1\n"), "--wait", "--timeout", "5m")
	y.Run("delete", "again", "--wait", "--timeout", "5m")
	y.allOff(1)
}

// TestAnUnknownMachineIsOfferedAndEnrolled powers one on by hand.
func TestAnUnknownMachineIsOfferedAndEnrolled(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	y := newTestbed(t, 2, "--power", "wol")
	y.Run("machines", "remove", "rack-2")
	y.Eventually(10*time.Minute, "rack-2 has left", func() bool { return y.Muster("machines", "get", "rack-2").Code != 0 })
	y.Until("rack-2 is off", func() bool { return y.power("rack-2") == "off" })
	y.Run("rack", "on", "rack-2")
	var unknown struct {
		Items []struct {
			MAC   string
			Facts struct{ CPUs int }
		}
	}
	y.Eventually(10*time.Minute, "it is offered with its facts", func() bool {
		y.Get(&unknown, "machines", "unknown")
		return len(unknown.Items) == 1 && unknown.Items[0].Facts.CPUs > 0
	})
	y.Until("it switches itself off", func() bool { return y.power("rack-2") == "off" })
	y.Run("machines", "add", "found", "--mac", unknown.Items[0].MAC, "--port", "m2n0", "--power", "wol", "--wait", "--timeout",
		"5m")
	if m := y.machine("found"); m.Phase != "available" {
		t.Errorf("%+v", m)
	}
}

// TestARootOnDiskOutlivesAPowerCut has a node whose machine loses its power and comes back as the same node.
func TestARootOnDiskOutlivesAPowerCut(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	y := newTestbed(t, 1, "--power", "redfish", "--firmware", "uefi")
	y.inspected(1)
	y.Run("create", "-f", y.File("disk.yaml", "name: disk\nisolation: metal\nboot: disk\nnodes: 1\n"), "--wait", "--timeout",
		"5m")
	y.Run("ssh", "disk", "--", "srun -N1 sh -c 'echo kept > /var/tmp/kept; sync'")
	y.Run("rack", "off", "rack-1")
	y.Run("rack", "on", "rack-1")
	y.Eventually(10*time.Minute, "the node is back", func() bool {
		return strings.Contains(y.Run("events", "disk"), "boots again as the same node") &&
			strings.Contains(y.Run("describe", "disk"), "head and 1 node")
	})
	if out := y.Run("ssh", "disk", "--", "srun -N1 cat /var/tmp/kept"); out != "kept\n" {
		t.Errorf("after the power cut: %q", out)
	}
	y.Run("delete", "disk", "--wait", "--timeout", "5m")
	if m := y.machine("rack-1"); m.Release == nil || !m.Release.Clean {
		t.Errorf("%+v", m.Release)
	}
	y.allOff(1)
}
