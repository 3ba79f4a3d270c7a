package metal_test

import (
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
)

// TestAGuestOfAMachineOfTheRackSleepsAndItsJobGoesOn pauses a cluster whose node is a guest of a machine of the rack. Its
// memory goes to that machine's disk, the machine stays a hypervisor for longer than an idle one does, and the job counts on
// when the cluster is back.
func TestAGuestOfAMachineOfTheRackSleepsAndItsJobGoesOn(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	y, tell := hypervisors(t, strings.Replace(twoHosts, "hypervisor_idle: 2h", "hypervisor_idle: 10s", 1), 1)
	slurm := func(command string) string { return y.Run("ssh", "sleeping", "--", command) }
	counted := func() (string, int) { return y.counted("sleeping") }
	until := func(phase string) {
		t.Helper()
		y.Eventually(30*time.Minute, "the cluster is "+phase, func() bool {
			time.Sleep(2 * time.Second)
			var c cluster
			y.Get(&c, "get", "sleeping")
			return c.Phase == phase
		})
		tell(phase)
	}
	y.Run("create", "-f", y.File("sleeping.yaml", "name: sleeping\nqueues: [{name: cpu, class: parts, nodes: 1}]\n"))
	until("ready")
	job := strings.TrimSpace(slurm(witness))
	y.Eventually(10*time.Minute, "the job counts", func() bool { time.Sleep(time.Second); _, n := counted(); return n >= 3 })

	t.Log(y.Run("pause", "sleeping", "--on-jobs", "keep"))
	until("paused")
	if out := y.Run("describe", "sleeping"); !strings.Contains(out, "suspended: its memory takes") {
		t.Errorf("its node does not sleep:\n%s", out)
	}
	time.Sleep(30 * time.Second) // three times what an idle hypervisor has
	if m := y.machine("rack-1"); m.Phase != "in-use" || y.power("rack-1") != "on" {
		t.Errorf("while a guest sleeps there its machine is %s, and %s", m.Phase, y.power("rack-1"))
	}

	t.Log(y.Run("resume", "sleeping"))
	until("ready")
	boot, before := counted()
	y.Eventually(10*time.Minute, "the job counts on", func() bool {
		time.Sleep(time.Second)
		_, n := counted()
		return n >= before+5
	})
	if got := strings.TrimSpace(y.Run("ssh", "sleeping:cpu1", "--", "cat /proc/sys/kernel/random/boot_id")); got != boot {
		t.Errorf("cpu1 had boot %s, and has boot %s", boot, got)
	}
	if got := strings.Fields(slurm("squeue -h -o '%A %T'; scontrol show job " + job +
		" | grep -o 'Restarts=[0-9]*'")); strings.Join(got, " ") != job+" RUNNING Restarts=0" {
		t.Errorf("of job %s Slurm says %v", job, got)
	}
	t.Log("\n" + y.Run("events"))

	y.Run("delete", "sleeping", "--wait", "--timeout", "10m")
	y.allOff(1)
	tell("its cluster is gone, and the machine off")
	if m := y.machine("rack-1"); m.Release == nil || !m.Release.Clean {
		t.Errorf("after its release: %+v", m)
	}
}
