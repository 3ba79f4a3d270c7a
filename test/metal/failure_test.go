package metal_test

import (
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
)

// node is one of a cluster's, by name; the zero value while there is none.
func (y *testbed) node(in, name string) (id, phase, machine string) {
	y.Helper()
	var c cluster
	y.Get(&c, "get", in)
	for _, n := range c.Nodes {
		if n.Name == name {
			return n.ID, n.Phase, n.Machine
		}
	}
	return "", "", ""
}

// TestAMachineThatFallsSilentIsSwitchedOffAndReplaced hangs the machine of a ready node, then takes the cable out of the
// next one: each is seen off before another machine has its name. Jobs on the other node go on, those of the lost one are
// queued again. At last the power fails, after which the node boots again where it was.
func TestAMachineThatFallsSilentIsSwitchedOffAndReplaced(t *testing.T) {
	testall.Only(t)
	y := newTestbed(t, 3, "--power", "ipmi")
	y.inspected(3)
	y.Run("create", "-f", y.File("lost.yaml", "name: lost\nisolation: metal\nnodes: 2\n"), "--wait", "--timeout", "5m")
	y.Run("ssh", "lost", "--", "sbatch -w n1 -o untouched --wrap 'touch began; while [ ! -e ~/enough ]; do sleep 1; done; "+
		"echo untouched, ${SLURM_RESTART_COUNT:-0}'")
	y.Until("a job runs on n1", func() bool { return strings.Contains(y.Run("ssh", "lost", "--", "ls"), "began") })

	for _, fault := range []string{"hang", "unplug"} {
		out := "victim-" + fault
		y.Run("ssh", "lost", "--", "sbatch -w n2 --open-mode=append -o "+out+
			" --wrap 'echo begun; [ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ] || sleep 3600; echo done on $(hostname)'")
		y.Until("a job runs on n2", func() bool {
			return strings.Contains(y.Run("ssh", "lost", "--", "cat "+out+" 2>/dev/null || true"), "begun")
		})
		id, _, broken := y.node("lost", "n2")
		struck := time.Now()
		y.Run("rack", fault, broken)
		y.Eventually(10*time.Minute, "n2 leaves "+broken, func() bool { now, _, _ := y.node("lost", "n2"); return now != id })
		if got := y.power(broken); got != "off" {
			t.Errorf("%s: n2 has left %s, which is %s", fault, broken, got)
		}
		t.Logf("%s: n2 was given up, and %s seen off, after %.1f s", fault, broken, time.Since(struck).Seconds())
		y.Run("rack", "heal", broken)
		y.Eventually(10*time.Minute, "n2 is ready on another machine", func() bool {
			now, phase, machine := y.node("lost", "n2")
			return now != id && phase == "ready" && machine != broken
		})
		t.Logf("%s: n2 is ready again after %.1f s", fault, time.Since(struck).Seconds())
		if log := y.Run("events", "lost"); !strings.Contains(log, "its agent was silent for") {
			t.Errorf("%s: no event says why:\n%s", fault, log)
		}
		y.Eventually(10*time.Minute, "the job of n2 was queued again and finishes", func() bool {
			return strings.Contains(y.Run("ssh", "lost", "--", "cat "+out), "done on n2")
		})
		y.Eventually(10*time.Minute, broken+" is healthy again and back in the pool", func() bool {
			return y.machine(broken).Phase == "available"
		})
	}

	y.Run("ssh", "lost", "--", "touch enough")
	y.Until("the job on n1 ends well", func() bool {
		return strings.Contains(y.Run("ssh", "lost", "--", "cat untouched 2>/dev/null || true"), "untouched, 0")
	})
	id, _, machine := y.node("lost", "n1")
	y.Run("rack", "kill", machine)
	y.Eventually(10*time.Minute, "n1 is ready again, as the same node", func() bool {
		now, phase, on := y.node("lost", "n1")
		return now == id && on == machine && phase == "ready" &&
			strings.Contains(y.Run("events", "lost"), "boots again as the same node")
	})
	y.Run("delete", "lost", "--wait", "--timeout", "5m")
	y.allOff(3)
}
