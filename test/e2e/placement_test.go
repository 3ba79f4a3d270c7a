package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// TestNodesLieWhereTheirQueueAsksAndSlurmKnowsTheirSwitch goes through docs/placement.md: the nodes are told to hang on two leaf
// switches, and Slurm's real slurmctld gives a job nodes of one.
func TestNodesLieWhereTheirQueueAsksAndSlurmKnowsTheirSwitch(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.Run("machines", "add", "--local", "7", "--wait")
	var text strings.Builder
	for i := 1; i <= 7; i++ {
		leaf := "near"
		if i > 3 {
			leaf = "wide"
		}
		fmt.Fprintf(&text, "machine=local-%d\nlldp.eth0.chassis.local=%s\nlldp.eth0.chassis.name=%s\n", i, leaf, leaf)
	}
	r.Run("fabric", "cables", "import", "eth0", r.File("eth0.txt", text.String()))
	if out := r.Run("fabric", "cables", "list"); !regexp.MustCompile(`eth0 +wide +0 +4 +local-4,local-5,local-6,local-7`).
		MatchString(out) {
		t.Error(out)
	}

	one := r.Muster("plan", "-f", r.File("one.yaml", "name: lay\nqueues: [{name: cpu, nodes: 5, placement: same-switch}]\n"))
	if one.Code != 3 || !strings.Contains(one.Err, "5 on one switch asked, at most 4 free on one (wide)") {
		t.Error(one)
	}
	file := r.File("lay.yaml", "name: lay\nqueues: [{name: cpu, nodes: 5, placement: compact}]\n")
	if out := r.Run("plan", "-f", file); !strings.Contains(out,
		"cpu: 5 nodes on 2 leaves (wide 4, near 1), at most 2 hops apart") {
		t.Error(out)
	}
	r.Run("create", "-f", file, "--wait")
	if out := r.Run("describe", "lay"); !regexp.MustCompile(`cpu5 +cpu +ready .*local-\d +wide`).
		MatchString(out) || strings.Count(out, " wide ") != 4 {
		t.Error(out)
	}
	// No control group sees to it there: slurmd looks at it every 5 seconds.
	for mib, want := range map[string]string{"50": "done\n", "300": ""} {
		job := "srun -Q --mem=100M python3 -c 'import time; b = bytearray(" + mib + " << 20); time.sleep(" + mib +
			"/10); print(\"done\")' 2>err || grep -q 'memory limit' err || cat err"
		if out := r.Run("ssh", "lay", "--", job); out != want {
			t.Errorf("a job of 100 MiB that uses %s: %q", mib, out)
		}
	}
	for command, want := range map[string]string{
		`srun -N4 --switches=1 hostname | sort | xargs`: "cpu2 cpu3 cpu4 cpu5\n",
		`scontrol show topology | sed -n 's/ LinkSpeed=[0-9]*//p' | sort`: "SwitchName=muster_top Level=1 " +
			"Nodes=cpu[1-5] Switches=near,wide\nSwitchName=near Level=0 Nodes=cpu1\nSwitchName=wide Level=0 Nodes=cpu2,cpu3,cpu4,cpu5\n",
		`srun -N4 --constraint="[switch_near|switch_wide]" hostname | sort | xargs`:    "cpu2 cpu3 cpu4 cpu5\n",
		`srun -N2 --constraint=switch_near hostname 2>&1 | grep -c "is not available"`: "1\n",
		`srun -N5 hostname | sort | xargs`:                                             "cpu1 cpu2 cpu3 cpu4 cpu5\n",
		`srun -w cpu1 grep PMIx /run/slurm/conf/mpi.conf`:                              "PMIxCollFence=ring\n",
		`grep -h Nodes= /etc/slurm/topology.conf | sort | xargs`: "SwitchName=near Nodes=cpu1 " +
			"SwitchName=wide Nodes=cpu2,cpu3,cpu4,cpu5\n",
	} {
		if out := r.Run("ssh", "lay", "--", command); out != want {
			t.Errorf("%s: %q, not %q", command, out, want)
		}
	}
}
