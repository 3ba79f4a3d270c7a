package metal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
)

// TestAClusterOfMachinesGrowsRollsPausesAndResumes leads whole machines through what the tests of test/e2e do with nodes on
// one host: they are switched on when a job waits, go when they are idle, boot one after the other for another kind of root,
// are given back by a pause, and come again.
func TestAClusterOfMachinesGrowsRollsPausesAndResumes(t *testing.T) {
	testall.Only(t)
	y := newTestbed(t, 3, "--power", "mixed")
	y.inspected(3)
	file := func(rest string) string {
		return y.File("live.yaml", "name: live\nisolation: metal\nhead: {class: service}\n"+rest)
	}
	slurm := func(command string) string { return y.Run("ssh", "live", "--", command) }
	printed := func(file, want string) func() bool {
		return func() bool { return slurm("cat "+file+" 2>/dev/null || true") == want }
	}

	y.Run("create", "-f", file("queues: [{name: cpu, class: metal, max: 2, idle_after: 10s}]\n"), "--wait")
	start := time.Now()
	slurm("sbatch -N2 -o two.out --wrap 'srun hostname | sort'")
	y.Eventually(10*time.Minute, "two machines have come for the job", printed("two.out", "cpu1\ncpu2\n"))
	t.Logf("from sbatch on an empty queue of machines to its output: %.1f s", time.Since(start).Seconds())
	y.Eventually(10*time.Minute, "the machines are gone, and off", func() bool {
		var c cluster
		y.Get(&c, "get", "live")
		return len(c.Nodes) == 1 && !strings.Contains(fmt.Sprint(y.rack()), " on}")
	})

	y.Run("apply", "-f", file("queues: [{name: cpu, class: metal, nodes: 2}]\n"), "--wait", "--timeout", "5m")
	slurm("sbatch -w cpu2 -o witness.out --wrap 'touch began; while [ ! -e ~/enough ]; do sleep 1; done; echo ended, " +
		"${SLURM_RESTART_COUNT:-0}'")
	y.Until("a job runs", func() bool { return strings.Contains(slurm("ls"), "began") })
	onDisk := file("boot: disk\nqueues: [{name: cpu, class: metal, nodes: 2}]\n")
	y.Run("apply", "-f", onDisk)
	y.Eventually(10*time.Minute, "cpu1 has its root on its disk, and cpu2 waits for its job", func() bool {
		return strings.Contains(y.Run("describe", "live"), "waits for jobs on cpu2")
	})
	slurm("touch enough")
	y.Run("apply", "-f", onDisk, "--wait", "--timeout", "6m")
	if got := slurm("srun -N2 grep -c vda3 /proc/partitions; cat witness.out"); got != "1\n1\nended, 0\n" {
		t.Errorf("partitions for roots on disks, and the witness: %q", got)
	}

	slurm("echo precious > file; sbatch -N2 -o long.out --wrap 'echo begun; [ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ] || sleep " +
		"3600; echo done'")
	y.Until("it runs", printed("long.out", "begun\n"))
	y.Run("pause", "live", "--wait", "--timeout", "5m")
	y.Eventually(10*time.Minute, "the machines are back, and off", func() bool {
		return y.machine("rack-1").Phase+y.machine("rack-2").Phase+y.machine("rack-3").Phase == strings.Repeat("available", 3) &&
			!strings.Contains(fmt.Sprint(y.rack()), " on}")
	})
	y.Run("resume", "live", "--wait", "--timeout", "6m")
	y.Eventually(10*time.Minute, "the job has run", func() bool {
		return strings.HasSuffix(slurm("cat long.out file"), "done\nprecious\n")
	})
	y.Run("delete", "live", "--wait", "--timeout", "5m")
	y.allOff(3)
}
