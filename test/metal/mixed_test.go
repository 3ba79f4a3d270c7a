package metal_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// allocation skips what needs virtual machines where none can be made.
func allocation(t *testing.T) {
	t.Helper()
	for _, program := range []string{"libvirtd", "qemu-system-x86_64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("virtual machines are not tested: there is no %s; `make setup` installs it", program)
		}
	}
}

// TestAClusterOfAGuestAndAMachine has a virtual machine of this host and a whole machine of the rack in one cluster. What they
// say to each other crosses the cluster's bridge and the rack's.
func TestAClusterOfAGuestAndAMachine(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	allocation(t)
	y := testbedWith(t, func(r *rig.Rig) { r.Flags = []string{"--local-hypervisor"} }, 1, "--power", "ipmi")
	y.inspected(1)
	y.Run("create", "-f", filepath.Join(rig.Root(t), "examples/mixed.yaml"))
	var c cluster
	y.Eventually(15*time.Minute, "the cluster is ready", func() bool { y.Get(&c, "get", "mixed"); return c.Phase == "ready" })
	lives := map[string]string{}
	for _, n := range c.Nodes {
		lives[n.Name] = n.Machine
	}
	if !strings.Contains(lives["guests1"], "-hv-g") || lives["machines1"] != "rack-1" {
		t.Errorf("nodes live on %v", lives)
	}

	job := "echo '" + sum + "' > sum.c; mpicc -o sum sum.c && salloc -Q -p guests -n1 : -p machines -n1 mpirun ./sum"
	if out := y.Run("ssh", "mixed", "--", job); strings.TrimSpace(out) != "sum 3 of 2 ranks" {
		t.Errorf("%s:\n%s", job, out)
	}
	where := "salloc -Q -p guests -n1 : -p machines -n1 mpirun hostname | sort"
	if out := y.Run("ssh", "mixed", "--", where); out != "guests1\nmachines1\n" {
		t.Errorf("%s: %q", where, out)
	}
	y.Run("ssh", "mixed", "--", "srun -p guests sh -c 'echo from a guest > f'")
	if out := y.Run("ssh", "mixed", "--", "srun -p machines cat f"); out != "from a guest\n" {
		t.Errorf("a machine reads of what a guest wrote in /home: %q", out)
	}
	y.Run("delete", "mixed", "--wait", "--timeout", "4m")
	y.allOff(1)
}
