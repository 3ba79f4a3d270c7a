package metal_test

import (
	"os"
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
// say to each other crosses the cluster's bridge and the rack's. Then it is a cluster of the image that is not the default, which
// boots in no other test: in a namespace, in a virtual machine, and on a machine.
func TestAClusterOfAGuestAndAMachine(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	allocation(t)
	y := testbedWith(t, func(r *rig.Rig) { r.Flags = []string{"--local-hypervisor"}; r.Import("debian12-hpc") }, 1,
		"--power", "ipmi")
	y.inspected(1)
	file, err := os.ReadFile(filepath.Join(rig.Root(t), "examples/mixed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	mixed(y, y.File("mixed.yaml", string(file)), "13")
	mixed(y, y.File("older.yaml", string(file)+"image: debian12-hpc\n"), "12")
}

// mixed leads a cluster of examples/mixed.yaml through its life.
func mixed(y *testbed, file, debian string) {
	y.Helper()
	y.Run("create", "-f", file)
	var c cluster
	y.Eventually(15*time.Minute, "the cluster is ready", func() bool { y.Get(&c, "get", "mixed"); return c.Phase == "ready" })
	lives := map[string]string{}
	for _, n := range c.Nodes {
		lives[n.Name] = n.Machine
	}
	if !strings.Contains(lives["guests1"], "-hv-g") || lives["machines1"] != "rack-1" {
		y.Errorf("nodes live on %v", lives)
	}

	const both = "salloc -Q -p guests -n1 : -p machines -n1 mpirun "
	for command, want := range map[string]string{
		"echo '" + sum + "' > sum.c; mpicc -o sum sum.c && " + both + "./sum": "sum 3 of 2 ranks\n",
		both + "hostname | sort": "guests1\nmachines1\n",
		"of='cut -d. -f1 /etc/debian_version'; $of; srun -p guests $of; srun -p machines $of": strings.Repeat(debian+"\n", 3),
		"srun -p guests sh -c 'echo from a guest > f' && srun -p machines cat f":              "from a guest\n",
	} {
		if out := y.Run("ssh", "mixed", "--", command); out != want {
			y.Errorf("%s: %q, want %q", command, out, want)
		}
	}
	y.AddRecipe("spin", rig.Spin)
	compared := y.Run("bench", "compare", "mixed", "mixed", "--suite", "spin", "--queue", "guests", "--queue-b", "machines",
		"--rounds", "1", "--wait")
	for _, want := range []string{" in queue guests; ok\n", " in queue machines; ok\n", "\nspin "} {
		if !strings.Contains(compared, want) {
			y.Errorf("a guest beside a machine: no %q in\n%s", want, compared)
		}
	}
	y.Run("delete", "mixed", "--wait", "--timeout", "4m")
	y.allOff(1)
}
